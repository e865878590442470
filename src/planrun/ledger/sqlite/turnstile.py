"""One process writes at a time, and in turn.

SQLite's own write lock is not fair: under saturating writers a heartbeat waits for seconds. So every
write transaction holds a flock around it. The file names the last holder, so that a process frozen
inside a transaction can be named by those who wait.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

_PID_BYTES = 12


class Turnstile:
    """The lock file beside the ledger."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._stamp = f"{os.getpid():<{_PID_BYTES}}".encode()

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for the turn, hold it, pass it on. Blocks the calling thread."""
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            with contextlib.suppress(OSError):  # a full disk must not keep anybody out; the name is only for people
                os.pwrite(self._fd, self._stamp, 0)
            yield
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def holder(self) -> int:
        """The pid of the last process that had its turn, 0 if nobody had one."""
        text = os.pread(self._fd, _PID_BYTES, 0).strip()
        return int(text) if text.isdigit() else 0

    def is_held(self) -> bool:
        """Does anybody hold it right now? Asked through a descriptor of its own, while the writer may wait."""
        probe = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(probe)
        return False

    def close(self) -> None:
        os.close(self._fd)
