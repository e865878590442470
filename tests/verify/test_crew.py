"""What is done to the workers of a run."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from planrun.clock import SystemClock
from planrun.verify import crew as crews
from planrun.verify.crew import Crew, CrewLost, Post
from planrun.verify.plan import Blow, Strike

pytestmark = pytest.mark.anyio
SLEEPER = "import time\nwhile True: time.sleep(60)"


class Stage:
    """Workers that only sleep, and a turn to write that somebody may have."""

    def __init__(self, folder: Path) -> None:
        self.started: list[subprocess.Popen[bytes]] = []
        self.held: Iterator[bool] = iter(())
        self.crew = Crew(
            [Post("sqlite:////proc/none.db")] * 2,
            name="w",
            folder=folder,
            options={},
            environment=os.environ,
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
    assert await stage.crew.strike(Strike(0, Blow.KILL, 0.0, 0))

    assert [process.poll() for process in stage.started] == [-signal.SIGKILL, None, None]


async def test_whoever_runs_a_job_is_hit_first(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not await stage.crew.strike(Strike(0, Blow.JOB, 0.0, 0)), "nobody runs one"
    monkeypatch.setattr(stage.crew, "_jobs_of", lambda worker: [1] if worker.name == "w-2" else [])

    assert await stage.crew.strike(Strike(0, Blow.KILL, 0.0, 0))

    assert [process.poll() for process in stage.started] == [None, -signal.SIGKILL, None]


async def test_the_last_one_that_is_well_is_left_alone(stage: Stage) -> None:
    assert await stage.crew.strike(Strike(0, Blow.FREEZE, 0.0, 30))
    await asyncio.sleep(0)

    assert not await stage.crew.strike(Strike(0, Blow.KILL, 0.0, 0))
    assert not await stage.crew.strike(Strike(0, Blow.CUT, 0.0, 1)), "nobody stands behind a line"
    assert sum(stage.crew.done.values()) == 1


async def test_nobody_is_left_frozen_with_the_turn_to_write_of_others(stage: Stage) -> None:
    stage.held = iter([True] * (crews.TURN_LOOKS + 1))
    await stage.crew.strike(Strike(0, Blow.FREEZE, 0.0, 0.1))
    await stage.crew.calm()

    assert next(stage.held, None) is None, "it was thawed, and stopped again once the turn was free"


async def test_workers_that_end_by_themselves_are_said(tmp_path: Path) -> None:
    stage = Stage(tmp_path)

    with pytest.raises(CrewLost, match=r"one said last: .*none\.db"):
        await stage.crew.start()
    await stage.crew.close()
