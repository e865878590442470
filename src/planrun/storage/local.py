"""The local files on this side of a store: read once, in chunks, and their errors in the port's words."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from planrun.core.errors import StorageError

CHUNK_BYTES = 1024 * 1024
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_AWAY = (errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENOTCONN)  # a network filesystem


def chunks_of(source: Path, before_chunk: Callable[[], None]) -> Iterator[memoryview]:
    """The bytes of a regular file. A chunk holds until the next one is asked for.

    Args:
        before_chunk: Called before every chunk, and once at the end of the file; what it raises ends the reading.

    Raises:
        StorageError: Not a regular file.
        OSError: It cannot be read.
    """
    buffer = memoryview(bytearray(CHUNK_BYTES))
    # O_NONBLOCK: opening a pipe must fail below instead of waiting for its writer.
    fd = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb", buffering=0) as data:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise StorageError(f"{source} is not a regular file")
        while True:
            before_chunk()
            count = data.readinto(buffer)
            if not count:
                return
            yield buffer[:count]


@contextmanager
def in_words(what: str, disk: Path) -> Iterator[None]:
    """Turn the system's errors into the port's."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise StorageError(f"{what}: the disk of {disk} is full; make room there", disk_full=True) from error
        raise StorageError(f"{what}: {error}", is_away=error.errno in _AWAY) from error
