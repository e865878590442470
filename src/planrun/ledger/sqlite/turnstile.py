"""One process writes at a time, and in turn.

SQLite's own write lock is not fair: under saturating writers a heartbeat waits for seconds. So every
write transaction holds a flock around it. The file names the last holder, so that a process frozen
inside a transaction can be named by those who wait.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from planrun.core.errors import LedgerBusy

_PID_BYTES = 12


class Turnstile:
    """The lock file beside the ledger."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._stamp = f"{os.getpid():<{_PID_BYTES}}".encode()

    @contextlib.contextmanager
    def turn(self, *, wait_s: float | None = None) -> Iterator[None]:
        """Wait for the turn, hold it, pass it on. Blocks the calling thread.

        Args:
            wait_s: Give up after so many seconds; None: never, and in turn with all others.

        Raises:
            LedgerBusy: It was not passed on in time; names the holder.
        """
        if wait_s is None:
            fcntl.flock(self._fd, fcntl.LOCK_EX)
        elif not self._try_until(time.monotonic() + wait_s):
            raise self.busy(wait_s)
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

    def busy(self, waited_s: float) -> LedgerBusy:
        """The error for those who waited in vain: names who holds the ledger, and what to do."""
        ledger = self._path.with_suffix("")
        holder = self.holder() if self.is_held() else 0
        if holder in (0, os.getpid()):  # our own writer has its turn, and waits too
            return LedgerBusy(
                f"{ledger} has been locked for {waited_s:g} s by a program that is not planrun; "
                "close it and try again; nothing was done",
                holder_pid=0,
            )
        return LedgerBusy(
            f"process {holder} has held the write lock of {ledger} for {waited_s:g} s; "
            f"if it is stopped, continue it (kill -CONT {holder}) or end it (kill -9 {holder}); nothing was done",
            holder_pid=holder,
        )

    def _try_until(self, deadline: float) -> bool:
        while True:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    return False
                time.sleep(0.01)
            else:
                return True

    def close(self) -> None:
        os.close(self._fd)
