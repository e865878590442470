"""Folders that job code has written: as deep, as odd and as closed as it likes. Nothing here recurses."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

TRIES = 5


def remove_folder(folder: Path) -> None:
    """Remove a folder that job code has written, whatever modes it has set there and however deep it is.

    Raises:
        OSError: Some of it cannot be removed.
    """
    for _ in range(TRIES):  # another may be at it, too, and take things from under our hands
        with suppress(OSError, RecursionError):
            shutil.rmtree(folder, onerror=_unless_gone)
        if not folder.exists():
            return
        with suppress(FileNotFoundError):
            _flatten(folder)
    shutil.rmtree(folder, onerror=_unless_gone)


def _unless_gone(_function: Any, _path: str, error: Any) -> None:
    """Several may remove the same folder at once: what another was quicker with stops nobody."""
    if not isinstance(error[1], FileNotFoundError):
        raise error[1]


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
