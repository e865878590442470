"""The folder of one attempt: its scratch, its inputs as local files, and what it may resume from.

It is named by the token and starts empty for every attempt; whoever finds it later asks the ledger
whether it may go.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path, PurePath

from planrun.core.errors import Permanent, StorageError
from planrun.core.messages import Checkpoint
from planrun.folders import remove_folder
from planrun.storage.contract import Store

SUFFIX_LENGTH_MAX = 10
SMALL_ENTRIES_MAX = 16
SMALL_FILE_BYTES_MAX = 1024 * 1024


class AttemptFolder:
    """`<scratch root>/<token hex>/` with `scratch/`, `tmp/` and `home/` (the job's own), `inputs/` and `resume/`."""

    def __init__(self, root: Path, token: int, *, instead_of: AttemptFolder | None = None) -> None:
        """
        Args:
            instead_of: An empty one that takes the new name: making and removing folders costs more than short jobs.
        """
        self.path = root / f"{token:x}"
        self.scratch = self.path / "scratch"
        self.tmp = self.path / "tmp"
        self.home = self.path / "home"
        self.inputs = self.path / "inputs"
        self.resume = self.path / "resume"
        self._instead_of = instead_of

    def create(self) -> None:
        """Start empty, whatever lay there. Quick: a token is granted once, so hardly ever anything lies there."""
        before, self._instead_of = self._instead_of, None
        if before is not None:
            with suppress(OSError):  # somebody has removed it
                before.path.rename(self.path)
                return
        try:
            self.path.mkdir(parents=True)
        except FileExistsError:
            self.remove()
            self.path.mkdir(parents=True)
        for own in (self.scratch, self.tmp, self.home):
            own.mkdir()

    def link_input(self, name: str, source: Path) -> Path:
        """Put a local file under a safe name of its own, so that no odd file name ever reaches a command line.

        Raises:
            Permanent: It is gone, or is not a file that this worker may read.
        """
        try:
            _check_input(source)
        except OSError as error:
            raise Permanent(
                f"input {name}: {source} cannot be read ({error.strerror})", code="input-unreadable"
            ) from None
        link = self.place_for(name, source)
        link.symlink_to(source)
        return link

    def place_for(self, name: str, source: PurePath) -> Path:
        """The safe name of an input."""
        place = self.inputs / name / f"input{plain_suffix(source).lower()}"
        place.parent.mkdir()
        return place

    def restore(self, checkpoint: Checkpoint, store: Store, *, before_chunk: Callable[[], None]) -> Path:
        """Fetch what an earlier attempt left, verified.

        Args:
            before_chunk: Called before every file and every chunk; what it raises ends the fetching.

        Raises:
            StorageError: A file is gone or differs from its digest: the attempt starts from the beginning.
        """
        remove_folder(self.resume)
        for file in checkpoint.files:
            before_chunk()
            target = self.resume / file.name
            if not target.resolve().is_relative_to(self.resume.resolve()):
                raise StorageError(f"the checkpoint names a file outside its folder: {file.name}")
            target.parent.mkdir(parents=True, exist_ok=True)
            store.get(file.key, target, sha256=file.sha256, before_chunk=before_chunk)
            target.chmod(0o444)
        self.resume.mkdir(exist_ok=True)
        return self.resume

    def empty_small(self) -> bool:
        """Empty the job's own folders now, if hardly anything lies in them; False: too much, or not only there."""
        try:
            folders = (self.scratch, self.tmp, self.home)
            if not all(map(_is_plain, (self.path, *folders))) or len(os.listdir(self.path)) > len(folders):  # noqa: PTH208 - names are enough
                return False
            allowed = SMALL_ENTRIES_MAX
            for own in folders:
                allowed = _remove_entries(own, allowed)
        except OSError:
            return False
        return allowed >= 0

    def remove_small(self) -> bool:
        """Remove it now if hardly anything lies in it; False: leave it to a thread."""
        try:
            if not _is_plain(self.path) or _remove_entries(self.path, SMALL_ENTRIES_MAX) < 0:
                return False
            self.path.rmdir()
        except FileNotFoundError:
            return not self.path.exists()
        except OSError:
            return False
        return True

    def remove(self) -> None:
        """Remove everything. What cannot be removed now is collected later."""
        with suppress(OSError):
            remove_folder(self.path)


def _is_plain(folder: Path) -> bool:
    """Is it a folder that its owner may use, and no link that job code has put there?"""
    mode = os.lstat(folder).st_mode
    return stat.S_ISDIR(mode) and mode & stat.S_IRWXU == stat.S_IRWXU


def _remove_entries(folder: Path | str, allowed: int) -> int:
    """Empty a folder in which at most so many entries lie, at any depth. Returns how many less that is; -1: too many.

    Raises:
        OSError: Something cannot be removed.
    """
    with os.scandir(folder) as found:
        for entry in found:
            if allowed <= 0:
                return -1
            allowed -= 1
            if entry.is_dir(follow_symlinks=False):
                allowed = _remove_entries(entry.path, allowed)
                if allowed < 0:
                    return -1
                os.rmdir(entry)  # noqa: PTH106 - an entry is no Path
            elif entry.stat(follow_symlinks=False).st_size > SMALL_FILE_BYTES_MAX:
                return -1
            else:
                os.unlink(entry)  # noqa: PTH108 - as above
    return allowed


def plain_suffix(path: PurePath) -> str:
    """The suffix of a file if it is an ordinary one: no other reaches a command line or an object's key."""
    suffix = path.suffix
    return suffix if suffix[1:].isalnum() and suffix.isascii() and len(suffix) <= SUFFIX_LENGTH_MAX else ""


def _check_input(source: Path) -> None:
    """It may have been replaced since it was submitted; opening a pipe would wait for somebody to write.

    Raises:
        OSError: Not a file that can be read.
    """
    fd = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
    finally:
        os.close(fd)
