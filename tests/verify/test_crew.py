"""What is done to the workers of a run."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from planrun.clock import SystemClock
from planrun.verify import crew as crews
from planrun.verify.crew import Crew, CrewLost, Post
from planrun.verify.kinds import NAMES
from planrun.verify.plan import Blow, Strike
from planrun.verify.sight import Sight, Target
from planrun.verify.story import Note

pytestmark = pytest.mark.anyio
SLEEPER = "import time\nwhile True: time.sleep(60)"


class Seen:
    """One attempt, of worker w-2, that has come to its end and stores file after file."""

    def __init__(self) -> None:
        self.target = Target(7, 1, "j7", 4, "w-2", "ns/jobs/j7/1-4/")
        self.notes = [Note(0, 1, "n")]
        self.files = 0
        self.is_its_own = True
        self.running: dict[tuple[int, int], Target] = {}

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        self.notes.append(Note(self.target.number, self.target.attempt, "n"))
        self.running[self.target.number, self.target.attempt] = self.target
        yield

    def done(self) -> list[Note]:
        return list(self.notes)

    async def stored(self, target: Target) -> int:
        self.files += 1
        return self.files

    async def holds(self, target: Target) -> bool:
        return self.is_its_own


class Stage:
    """Workers that only sleep, and a turn to write that somebody may have."""

    def __init__(self, folder: Path) -> None:
        self.started: list[subprocess.Popen[bytes]] = []
        self.held: Iterator[bool] = iter(())
        self.seen = Seen()
        self.crew = Crew(
            [Post("sqlite:////proc/none.db")] * 2,
            name="w",
            folder=folder,
            options={},
            environment=os.environ,
            sight=cast("Sight", self.seen),
            ready=self._ready,
            holds_others_up=lambda: next(self.held, False),
            clock=SystemClock.open_system(),
        )

    async def _ready(self) -> set[str]:
        return {f"w-{n + 1}" for n, process in enumerate(self.started) if process.poll() is None}


@pytest.fixture
async def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    stage = Stage(tmp_path)
    popen = subprocess.Popen

    def sleeper(command: list[str], **options: object) -> subprocess.Popen[bytes]:
        process = popen([command[0], "-c", SLEEPER])
        stage.started.append(process)
        return process

    monkeypatch.setattr(subprocess, "Popen", sleeper)
    await stage.crew.start()
    yield stage
    await stage.crew.close()
    assert all(process.poll() is not None for process in stage.started)


async def test_a_killed_worker_is_replaced_at_once(stage: Stage) -> None:
    assert await stage.crew.strike(Strike(0, Blow.KILL, 0.0, 0, 1.0))

    assert [process.poll() for process in stage.started] == [-signal.SIGKILL, None, None]


async def test_whoever_runs_a_job_is_hit_first(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not await stage.crew.strike(Strike(0, Blow.JOB, 0.0, 0, 1.0)), "nobody runs one"
    monkeypatch.setattr(stage.crew, "_jobs_of", lambda worker: [1] if worker.name == "w-2" else [])

    assert await stage.crew.strike(Strike(0, Blow.KILL, 0.0, 0, 1.0))

    assert [process.poll() for process in stage.started] == [None, -signal.SIGKILL, None]


async def test_a_job_that_ended_by_itself_was_not_killed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([[1], [], []])
    monkeypatch.setattr(stage.crew, "_jobs_of", lambda worker: next(looks))

    assert not await stage.crew.strike(Strike(0, Blow.JOB, 0.0, 0, 1.0))
    assert not stage.crew.done


async def test_the_last_one_that_is_well_is_left_alone(stage: Stage) -> None:
    assert await stage.crew.strike(Strike(0, Blow.FREEZE, 0.0, 30, 1.0))
    await asyncio.sleep(0)

    assert not await stage.crew.strike(Strike(0, Blow.KILL, 0.0, 0, 1.0))
    assert not await stage.crew.strike(Strike(0, Blow.CUT, 0.0, 1, 1.0)), "nobody stands behind a line"
    assert sum(stage.crew.done.values()) == 1


async def test_nobody_is_left_frozen_with_the_turn_to_write_of_others(stage: Stage) -> None:
    stage.held = iter([True] * (crews.TURN_LOOKS + 1))
    await stage.crew.strike(Strike(0, Blow.FREEZE, 0.0, 0.1, 1.0))
    await stage.crew.calm()

    assert next(stage.held, None) is None, "it was thawed, and stopped again once the turn was free"


def is_stopped(process: subprocess.Popen[bytes]) -> bool:
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


async def test_whoever_stores_is_frozen_between_two_of_its_files_until_another_has_the_job(stage: Stage) -> None:
    assert await stage.crew.strike(Strike(0, Blow.LATE, 0.5, 0.0, 1.0))

    assert [is_stopped(process) for process in stage.started] == [False, True]
    assert stage.seen.files == 2 < len(NAMES)
    await asyncio.sleep(2 * crews.LOOK_EVERY_S)
    assert is_stopped(stage.started[1]), "the job is its own still"
    stage.seen.is_its_own = False
    await stage.crew.calm()
    assert not is_stopped(stage.started[1])
    assert stage.crew.done == {Blow.LATE: 1}


async def test_whoever_was_too_quick_is_let_go_and_does_not_count(stage: Stage) -> None:
    stage.seen.is_its_own = False

    assert not await stage.crew.strike(Strike(0, Blow.LATE, 0.0, 0.0, 0.3))

    assert not any(map(is_stopped, stage.started))
    assert not stage.crew.done


async def test_workers_that_end_by_themselves_are_said(tmp_path: Path) -> None:
    stage = Stage(tmp_path)

    with pytest.raises(CrewLost, match=r"one said last: .*none\.db"):
        await stage.crew.start()
    await stage.crew.close()
