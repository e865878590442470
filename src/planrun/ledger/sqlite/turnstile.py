"""One process writes at a time, and in turn.

SQLite's own write lock is not fair: under saturating writers a heartbeat waits for seconds. So every
write transaction holds a flock around it: the turn. A flock is not fair either, whoever comes first after
it is let go has it; so whoever is not in a hurry holds a second one, the line, while it waits for the turn.
A heartbeat waits for the turn alone, and meets one other at most.

The file names the last holder, so that a process frozen inside a transaction can be named by those who
wait. A process that is frozen in line holds nobody up for longer than LINE_S.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from planrun.core.errors import LedgerBusy

LINE_S = 1.0
_LOOK_S = (0.001, 0.002, 0.005)
_SOON_S = 0.002  # for a commit of somebody else
_PID_BYTES = 12


class Turnstile:
    """The lock files beside the ledger. Used by one thread, but for `holder` and `is_held`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._line_fd = os.open(path.with_name(path.name + ".line"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._stamp = f"{os.getpid():<{_PID_BYTES}}".encode()

    @contextlib.contextmanager
    def turn(self, *, wait_s: float | None = None, in_a_hurry: Callable[[], bool] = lambda: False) -> Iterator[bool]:
        """Wait for the turn, hold it, pass it on. Blocks the calling thread.

        Args:
            wait_s: Give up after so many seconds, and stand in no line; None: wait for ever.
            in_a_hurry: Asked while standing in line: does something wait here that must not?

        Raises:
            LedgerBusy: It was not passed on in time; names the holder.
        """
        if wait_s is None:
            self._wait_in_line(in_a_hurry)
        elif not self._try_until(time.monotonic() + wait_s):
            raise self.busy(wait_s)
        try:
            self._sign()
            yield True
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    @contextlib.contextmanager
    def turn_if_free(self) -> Iterator[bool]:
        """Hold the turn if nobody waits for it and whoever has it passes it on at once; False: it is not to be had."""
        is_free = _try(self._line_fd) and self._try_until(time.monotonic() + _SOON_S)
        if is_free:
            self._sign()
        try:
            fcntl.flock(self._line_fd, fcntl.LOCK_UN)
            yield is_free
        finally:
            self.pass_on()

    def pass_on(self) -> None:
        """Hold nothing, whatever was held."""
        fcntl.flock(self._line_fd, fcntl.LOCK_UN)
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def _sign(self) -> None:
        with contextlib.suppress(OSError):  # a full disk must not keep anybody out; the name is only for people
            os.pwrite(self._fd, self._stamp, 0)

    def _wait_in_line(self, in_a_hurry: Callable[[], bool]) -> None:
        in_line = self._stand_in_line(in_a_hurry)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX)
        finally:
            if in_line:
                fcntl.flock(self._line_fd, fcntl.LOCK_UN)

    def _stand_in_line(self, in_a_hurry: Callable[[], bool]) -> bool:
        """Be the next in line. False: in a hurry, or the line does not move."""
        until_s, looks = time.monotonic() + LINE_S, 0
        while not in_a_hurry() and time.monotonic() < until_s:
            try:
                fcntl.flock(self._line_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                time.sleep(_LOOK_S[min(looks, len(_LOOK_S) - 1)])
                looks += 1
        return False

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
        pause_s = 0.0002
        while not _try(self._fd):
            if time.monotonic() >= deadline:
                return False
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.01)
        return True

    def close(self) -> None:
        os.close(self._fd)
        os.close(self._line_fd)


def _try(fd: int) -> bool:
    """Have a lock if nobody has it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
