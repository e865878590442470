"""What the jobs of all workers that share a scratch root have been promised.

    <scratch>/.reserved/<incarnation>    the loads of one living worker, which holds a flock on it

A file whose lock is free belongs to a dead worker and does not count. There is no lock for deciding,
so a frozen worker never blocks the others; the order of acts is what makes it safe: *announce, then
look*. Of two that decide at once at least one sees the other; at worst both step back.
"""

from __future__ import annotations

import errno
import fcntl
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from planrun.core.admission import Load

FOLDER = ".reserved"
_TORN_READS_MAX = 1000


class Reservations:
    """This worker's promises, and a view of the others'."""

    def __init__(self, scratch: Path, incarnation: str) -> None:
        self._folder = scratch / FOLDER
        self._path = self._folder / incarnation
        self._fd = -1
        self.prepare()

    def prepare(self) -> None:
        """Make the folder, again if somebody removed it."""
        self._folder.mkdir(parents=True, exist_ok=True)

    def announce(self, loads: Iterable[Load]) -> None:
        """Replace what this worker has promised, visible to all at once.

        Raises:
            OSError: Not written; what was announced before stands.
        """
        promises = msgspec.json.encode(list(loads))
        written = b"%08x%s" % (zlib.crc32(promises), promises)
        if self._fd >= 0 and _is_still(self._path, self._fd):
            # In place: a file of its own for each announcement costs more than all else between two short jobs.
            _write(self._fd, written.ljust(os.fstat(self._fd).st_size))
            return
        fresh = self._folder / f".{self._path.name}"
        # Locked before it gets its name: at no moment may the visible file look like a dead worker's.
        fd = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _write(fd, written)
            fresh.rename(self._path)
        except BaseException:
            os.close(fd)
            fresh.unlink(missing_ok=True)
            raise
        self._let_go()
        self._fd = fd

    def of_others(self) -> list[Load]:
        """What living workers beside this one have announced.

        Raises:
            OSError, msgspec.DecodeError: Somebody's promises cannot be read.
        """
        others = (name for name in os.listdir(self._folder) if self._is_of_other(name))  # noqa: PTH208 - names are enough
        return [load for name in others for load in _loads_of(self._folder / name)]

    def close(self) -> None:
        """Promise nothing any more."""
        self._path.unlink(missing_ok=True)
        self._let_go()

    def _is_of_other(self, name: str) -> bool:
        return name != self._path.name and not name.startswith(".")

    def _let_go(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


def _loads_of(path: Path) -> list[Load]:
    """The promises in one file; none if its worker is dead."""
    while True:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return []
        with _closing(fd):
            try:
                fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return msgspec.json.decode(_promises(fd), type=list[Load])
            if _is_still(path, fd):
                path.unlink(missing_ok=True)
                return []
        # Replaced by its living worker after it was opened here: look at the new one.


def _write(fd: int, data: bytes) -> None:
    if os.pwrite(fd, data, 0) < len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _promises(fd: int) -> bytes:
    """What is written there as a whole: a look may fall into the middle of a change."""
    written = b""
    for _ in range(_TORN_READS_MAX):
        written = os.pread(fd, os.fstat(fd).st_size, 0).rstrip()
        if b"%08x" % zlib.crc32(written[8:]) == written[:8]:
            break
    return written[8:]


def _is_still(path: Path, fd: int) -> bool:
    try:
        named, opened = path.lstat(), os.fstat(fd)
    except FileNotFoundError:
        return False
    return (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)


@contextmanager
def _closing(fd: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(fd)
