"""Who belongs to a tree, as the process table says it, and when nobody of it is left."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from planrun.worker import tree
from planrun.worker.tree import Marked, Process, Subtree, mark_of


def process(
    pid: int, *, parent: int = 1, session: int = 1, started: int = 100, state: str = "S", threads: int = 1
) -> Process:
    """A line of the table."""
    fields = [state, parent, 0, session, *[0] * 13, threads, 0, started, 0, 0]
    fields[17], fields[19] = threads, started
    return Process(pid, f"{pid} (a (b) c) {' '.join(map(str, fields))}\n".encode())


class Table:
    """The processes of a machine, and which of them carry a mark."""

    def __init__(self) -> None:
        self.rows: list[Process] = []
        self.marks: dict[int, str] = {}

    def members(self, of: Marked) -> list[int]:
        return sorted(each.pid for each in of.members())


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    table = Table()
    monkeypatch.setattr(tree, "look_at_all", lambda: iter(table.rows))
    monkeypatch.setattr(tree, "is_marked", lambda pid, mark: table.marks.get(pid, "").startswith(mark))
    return table


def test_session_parents_and_mark_make_a_member(table: Table) -> None:
    job = Marked("w.1.")
    job.main = 100
    table.marks = {300: "w.1.", 400: "w.2."}
    table.rows = [
        process(100, session=100),
        process(101, session=100),  # an orphan without a mark
        process(300, session=300),
        process(301, parent=300, session=301),
        process(302, parent=301, session=302),
        process(400, session=400),
        process(500, session=500),
    ]

    assert table.members(job) == [100, 101, 300, 301, 302]


def test_who_was_seen_once_stays_a_member_and_its_number_does_not(table: Table) -> None:
    """A daemon that leaves its session, its parent and its environment; later its number is somebody else's."""
    job = Marked("w.1.")
    job.main = 100
    table.rows = [process(100, session=100), process(200, parent=100, session=200)]
    table.members(job)

    table.rows = [process(200, session=200)]
    assert table.members(job) == [200]
    table.rows = [process(200, session=200, started=101)]
    assert table.members(job) == []


def test_a_process_whose_first_thread_has_ended_lives_while_another_runs() -> None:
    assert process(1).alive
    assert not process(1, state="Z").alive
    assert process(1, state="Z", threads=2).alive


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as started:
        yield started
        started.kill()


def test_one_look_that_finds_nobody_is_not_enough(sleeper: subprocess.Popen[bytes]) -> None:
    """A fork may have happened right under it."""
    looks: list[list[int]] = [[], [sleeper.pid], [], []]

    tree._kill_until_none(lambda: looks.pop(0))

    assert looks == []
    assert sleeper.wait(10) == -signal.SIGKILL


def test_what_any_thread_has_started_is_a_child() -> None:
    started: list[subprocess.Popen[bytes]] = []
    done = threading.Event()

    def start() -> None:
        started.append(subprocess.Popen(["sleep", "600"]))
        has_started.set()
        done.wait()

    has_started = threading.Event()
    thread = threading.Thread(target=start)
    thread.start()
    has_started.wait()
    try:
        assert started[0].pid in [each.pid for each in Subtree("mark").members()]
    finally:
        done.set()
        thread.join()
        started[0].kill()
        started[0].wait()


def test_no_mark_begins_with_another_s() -> None:
    marks = [mark_of(name, n) for name in ("w", "w1") for n in (1, 2, 12)]

    for mark in marks:
        assert [other for other in marks if other.startswith(mark)] == [mark]
    assert [mark for mark in marks if mark.startswith(mark_of("w"))] == marks[:3]


@contextmanager
def started_with(**environment: str) -> Iterator[int]:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, bufsize=0) as cat:
        assert cat.stdin is not None
        assert cat.stdout is not None
        cat.stdin.write(b"up\n")
        cat.stdout.readline()  # by now it has its environment
        yield cat.pid
        cat.kill()


def test_a_mark_is_looked_for_in_its_own_variable() -> None:
    with started_with(A="b", MY_PLANRUN_TREE="w.1.") as other:
        assert not tree.is_marked(other, "w.1.")
    with started_with(A="b", PLANRUN_TREE="w.1.") as marked:
        assert tree.is_marked(marked, "w.1.")
        assert not tree.is_marked(marked, "w.2.")
