"""Folders: such as job code writes, as deep, odd and closed as it likes; and what makes one ours, or durable.

Nothing here recurses.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def remove_folder(folder: Path) -> None:
    """Remove a folder that job code has written, whatever modes it has set there and however deep it is.

    Several processes may be asked to remove the same one at once; one of them does, the others leave it to that one.

    Raises:
        OSError: Some of it cannot be removed.
    """
    with suppress(FileNotFoundError), _alone(folder) as is_ours:
        if not is_ours:
            return
        try:
            shutil.rmtree(folder)
        except (OSError, RecursionError):
            _flatten(folder)
            shutil.rmtree(folder)


@contextmanager
def _alone(folder: Path) -> Iterator[bool]:
    """Hold the folder's own lock, if nobody does. It goes with the process that holds it."""
    folder.chmod(0o700)
    with held_alone(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as is_ours:
        yield is_ours


@contextmanager
def held_alone(handle: int) -> Iterator[bool]:
    """Hold the lock of an open file or folder, and close it in the end; False: somebody else holds it.

    The lock goes with the process that holds it.
    """
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_ours = True
        except BlockingIOError:
            is_ours = False
        yield is_ours
    finally:
        os.close(handle)


def fsync_folder(folder: Path) -> None:
    """Make the names in a folder durable: a rename, a new file.

    Raises:
        OSError: It is not certain that they are.
    """
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def files_below(folder: Path) -> Iterator[Path]:
    """Everything below a folder that is not a folder itself; links are not followed.

    Raises:
        OSError: Some of it cannot be listed.
    """
    unseen = [folder]
    while unseen:
        for entry in _entries(unseen.pop()):
            if entry.is_dir(follow_symlinks=False):
                unseen.append(Path(entry.path))
            else:
                yield Path(entry.path)


def _flatten(folder: Path) -> None:
    """Bring all folders of a tree, opened to us, directly below its top: no path in it is long then."""
    folder.chmod(0o700)
    unseen = [folder]
    while unseen:
        for entry in _entries(unseen.pop()):
            if entry.is_dir(follow_symlinks=False):
                lifted = Path(tempfile.mkdtemp(dir=folder))  # a folder may replace an empty one
                Path(entry.path).chmod(0o700)
                Path(entry.path).rename(lifted)
                unseen.append(lifted)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return list(entries)
