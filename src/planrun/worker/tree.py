"""Which processes belong to a job, and ending every one of them for certain.

Three ways to know the members, surest first:

* `Namespace`  we are process 1 of a PID namespace: everybody else in it is a member
* `Subtree`    we are the reaper of our descendants: orphans, daemons too, become our children
* `Marked`     only the session, the parents and the mark in the environment tell

Imported by the launcher, which must start fast: no dataclasses, no pathlib.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable, Iterator

MARKER = "PLANRUN_TREE"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PAUSE_S_MAX = 0.1


class Process:
    """One line of the process table, as it was a moment ago. CPU times in milliseconds."""

    __slots__ = ("alive", "cpu_ms", "parent", "pid", "rss_bytes", "session", "started")

    def __init__(self, pid: int, stat: bytes) -> None:
        fields = stat[stat.rindex(b")") + 2 :].split()
        self.pid = pid
        # A process whose first thread ended is shown as a zombie while its other threads run on.
        self.alive = fields[0] not in (b"Z", b"X") or int(fields[17]) > 1
        self.parent = int(fields[1])
        self.session = int(fields[3])
        self.cpu_ms = sum(map(int, fields[11:15])) * 1000 // _TICKS_PER_S  # its own and that of ended children
        self.started = int(fields[19])
        self.rss_bytes = int(fields[21]) * _PAGE_BYTES


def look(pid: int) -> Process | None:
    """One process; None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:  # noqa: PTH123 - pathlib would double the start-up time
            return Process(pid, stat.read())
    except OSError:
        return None


def look_at_all() -> Iterator[Process]:
    """All processes that can be seen from here."""
    for name in os.listdir("/proc"):  # noqa: PTH208 - as above
        if name.isdigit() and (process := look(int(name))) is not None:
            yield process


def mark_of(incarnation: str, n: int | None = None) -> str:
    """What marks the processes of the n-th tree of a worker; without a number, of all its trees."""
    return f"{incarnation}." if n is None else f"{incarnation}.{n}."


def is_marked(pid: int, mark: str) -> bool:
    """Was the process started with this mark, or one that begins with it, in its environment?"""
    try:
        with open(f"/proc/{pid}/environ", "rb") as environ:  # noqa: PTH123 - as above
            variables = environ.read()
    except OSError:
        return False
    marker = os.fsencode(f"{MARKER}={mark}")
    return variables.startswith(marker) or b"\0" + marker in variables


def marked(mark: str) -> list[int]:
    """The living processes that carry a mark."""
    return [process.pid for process in look_at_all() if process.alive and is_marked(process.pid, mark)]


def end_marked(mark: str) -> None:
    """Kill what a dead launcher has left behind; returns once no process with this mark is alive. Blocks."""
    _kill_until_none(lambda: marked(mark))


class Tree:
    """A main process and everything that it started.

    Attributes:
        main: The main process.
        ended: Its wait status and resource usage, once it is dead.
    """

    def __init__(self, mark: str) -> None:
        self.mark = mark
        self.main = 0
        self.ended: tuple[int, resource.struct_rusage] | None = None

    def members(self) -> list[Process]:
        """Every process of the tree, dead but unburied ones included."""
        raise NotImplementedError

    def reap(self) -> None:
        """Bury the dead, and take note of how the main process ended."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.main:
                self.ended = (status, usage)

    def end(self, *, spare: int = 0) -> None:
        """Kill every member but `spare`; returns once they are dead, however long that takes."""

        def living() -> list[int]:
            self.reap()
            return [process.pid for process in self.members() if process.alive and process.pid != spare]

        _kill_until_none(living)
        self.reap()


class Namespace(Tree):
    def members(self) -> list[Process]:
        return [process for process in look_at_all() if process.pid != 1]


class Subtree(Tree):
    def members(self) -> list[Process]:
        found: dict[int, Process] = {}
        unseen = _children(os.getpid())
        while unseen:
            pid = unseen.pop()
            if pid not in found and (process := look(pid)) is not None:
                found[pid] = process
                unseen += _children(pid)
        return list(found.values())


class Marked(Tree):
    def __init__(self, mark: str) -> None:
        super().__init__(mark)
        self._seen: set[tuple[int, int]] = set()

    def members(self) -> list[Process]:
        everybody = [process for process in look_at_all() if process.pid != os.getpid()]
        found = {
            process.pid: process
            for process in everybody
            if process.session == self.main
            or (process.pid, process.started) in self._seen
            or is_marked(process.pid, self.mark)
        }
        grew = True
        while grew:
            heirs = {process.pid: process for process in everybody if process.parent in found} | found
            grew = len(heirs) > len(found)
            found = heirs
        # Who was seen once stays a member, whatever session, parent or environment it takes on later.
        self._seen = {(process.pid, process.started) for process in found.values()}
        return list(found.values())


def _children(pid: int) -> list[int]:
    children: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - as above
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as listed:  # noqa: PTH123 - as above
                children += map(int, listed.read().split())
    except OSError:
        pass  # it has just ended: its children are somebody else's now, and the next look finds them there
    return children


def _kill_until_none(living: Callable[[], list[int]]) -> None:
    """Kill, look again, until two looks in a row find nobody: one look can miss a fork that happens under it."""
    pause_s = 0.001
    quiet = 0
    while quiet < 2:
        targets = living()
        quiet = 0 if targets else quiet + 1
        for pid in targets:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue  # gone already; or another user's, which only waiting can outlast
        if targets:  # they take a moment to die
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, _PAUSE_S_MAX)
