"""The runs: this process has pytest loaded and planrun not; for each mutant it forks, and the fork runs the tests.

Starting pytest afresh for every mutant would take most of the time. The parent has one thread, so that a fork is
whole; each fork leads a session of its own, so that whatever its tests started ends with it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import select
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pytest

from .copies import Copy
from .fences import Fence

# What every run would import again.
PRELOADED = [
    *("anyio._backends._asyncio", "anyio.pytest_plugin", "apsw", "hypothesis.stateful", "msgspec.json"),
    *("httpx2", "starlette.applications", "uvicorn.server", "cyclopts", "rich.console", "aio_pika", "obstore"),
    *("pytest_timeout", "schemathesis.pytest.plugin", "xdist.plugin"),
]
LIMIT_S = 150.0  # a mutant may hang: pytest's own time limit ends it before


class Verdict(NamedTuple):
    """How one run ended.

    Attributes:
        killer: The test that failed; empty: none did.
        why: If none did, the end of what pytest said.
        cpu_s: What it took of a core; `took_s` also depends on what else the machine does.
    """

    guard: Fence
    killer: str
    why: str
    took_s: float = 0.0
    cpu_s: float = 0.0

    def as_json(self) -> dict[str, Any]:
        guard = self.guard
        return {
            "guard": guard.name,
            "kind": guard.kind,
            "wastes": guard.wastes,
            "file": guard.file,
            "killer": self.killer,
            "seconds": round(self.took_s, 2),
            "cpu_seconds": round(self.cpu_s, 2),
            "why": self.why,
        }


class _Running(NamedTuple):
    guard: Fence | None
    copy: Copy
    pid: int
    began_s: float


class _Witness:
    """Writes down which tests failed."""

    def __init__(self, copy: Copy) -> None:
        self._copy = copy

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            with self._copy.failed.open("a") as file:
                print(report.nodeid, file=file)


def run_all(guards: Sequence[Fence], folder: Path, *, at_once: int) -> Iterator[Verdict]:
    """First the tests with every guard in its place, which all must pass; then each guard's without it."""
    for name in PRELOADED:
        importlib.import_module(name)
    assert "planrun" not in sys.modules
    gc.collect()
    gc.freeze()  # pytest collects garbage at its end: not what it was born with
    free = [Copy(folder / str(n)) for n in range(at_once)]
    named = sorted({test for guard in guards for test in guard.tests})
    running = [_start(copy, None, named[n::at_once]) for n, copy in enumerate(free) if named[n::at_once]]
    waiting = list(reversed(guards))
    red: list[str] = []
    try:
        while running:
            red += _look_at_whole(_wait(running))
        if red:  # what fails beside others may hold alone
            running.append(_start(free[0], None, red))
            red = _look_at_whole(_wait(running))
        while waiting or running:
            while waiting and free:
                guard, copy = waiting.pop(), free.pop()
                if why := _cannot_tell(copy, guard, red):
                    yield Verdict(guard, "", why)
                    free.append(copy)
                else:
                    copy.take_down(guard)
                    running.append(_start(copy, guard, guard.tests))
            if running:
                ended = _wait(running)
                yield _judge(ended)
                free.append(ended.copy)
    finally:
        _end(running)


def _look_at_whole(ended: _Running) -> list[str]:
    """The tests that fail with every guard in its place."""
    code, _ = _collect(ended)
    if code != pytest.ExitCode.OK and not ended.copy.failures():
        raise SystemExit(f"with every guard in its place the tests end with {code}:\n{ended.copy.log.read_text()}")
    return ended.copy.failures()


def _cannot_tell(copy: Copy, guard: Fence, red: Sequence[str]) -> str:
    if copy.count(guard) != 1:
        return f"{guard.file} has changed: bring the guard up to date"
    already = [test for test in red if test.partition("[")[0] in {each.partition("[")[0] for each in guard.tests}]
    return f"fails with the guard in its place, too: {already[0]}" if already else ""


def _start(copy: Copy, guard: Fence | None, tests: Sequence[str]) -> _Running:
    copy.failed.unlink(missing_ok=True)
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        _run(copy, tests, is_whole=guard is None)
    return _Running(guard, copy, pid, time.monotonic())


def _run(copy: Copy, tests: Sequence[str], *, is_whole: bool) -> NoReturn:
    """In the fork: that copy's planrun, and the tests."""
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.path.insert(0, str(copy.folder))
    os.environ["PYTHONPATH"] = str(copy.folder)
    sys.dont_write_bytecode = not is_whole
    os.environ["PYTHONDONTWRITEBYTECODE"] = "" if is_whole else "1"
    log = os.open(copy.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    code: int = pytest.ExitCode.INTERNAL_ERROR
    try:
        code = pytest.main(
            [
                *([] if is_whole else ["-x"]), "-q", "-p", "no:cacheprovider", "-p", "no:xdist",
                f"--basetemp={copy.folder / 'tmp'}",
                "-W", "ignore::pytest.PytestAssertRewriteWarning", *tests,
            ],
            plugins=[_Witness(copy)],
        )  # fmt: skip
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _wait(running: list[_Running]) -> _Running:
    """Until one of them has ended, by itself or by its limit; it is taken off the list."""
    watched = {os.pidfd_open(each.pid): each for each in running}
    try:
        poll = select.poll()
        for descriptor in watched:
            poll.register(descriptor, select.POLLIN)
        first = min(running, key=lambda each: each.began_s)
        left_s = first.began_s + _limit_s(first) - time.monotonic()
        found = poll.poll(max(0.0, left_s * 1000))
        ended = watched[found[0][0]] if found else first
    finally:
        for descriptor in watched:
            os.close(descriptor)
    running.remove(ended)
    return ended


def _limit_s(running: _Running) -> float:
    return LIMIT_S if running.guard is not None else 10 * LIMIT_S


def _judge(ended: _Running) -> Verdict:
    guard, copy = ended.guard, ended.copy
    assert guard is not None
    code, cpu_s = _collect(ended)
    copy.restore(guard)
    killer = next(iter(copy.failures()), "")  # what does not even import fails no test
    why = "" if killer else f"exit {code}: {copy.log.read_text()[-1500:]}"
    return Verdict(guard, killer, why, time.monotonic() - ended.began_s, cpu_s)


def _collect(ended: _Running) -> tuple[int, float]:
    """Its exit code and the seconds of a core that it took. Nothing that it started is left."""
    _end([ended])
    _, status, used = os.wait4(ended.pid, 0)
    return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime


def _end(running: Sequence[_Running]) -> None:
    for each in running:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(each.pid, signal.SIGKILL)
