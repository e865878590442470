"""Checkpoints and stopping: the job and its worker hand a folder over, and a deploy loses nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from planrun.core.life import Outcome
from planrun.worker.happenings import CheckpointReady, Done, Exited, Progress, Stopped
from tests.jobs.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def test_a_checkpoint_blocks_the_job_until_it_is_taken(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "earlier").mkdir()
    (tmp_path / "earlier" / "state").write_text("41")
    await stage.start("checkpoints")
    stage.run(checkpoint=tmp_path / "earlier", times=2)
    folder = tmp_path / "attempt" / "scratch" / "checkpoint"
    for expected in ("0", "1", "2"):
        ready = await stage.until(CheckpointReady)
        assert (folder / "state").read_text() == expected
        folder.rename(tmp_path / f"taken-{expected}")
        stage.process.answer_checkpoint(ready.seq, taken=True)
    done = await stage.until(Done)

    assert done.value == "41"


async def test_a_refused_checkpoint_lets_the_job_go_on_and_is_logged(stage: Stage) -> None:
    await stage.start("checkpoints")
    stage.run(times=0)
    ready = await stage.until(CheckpointReady)
    stage.process.answer_checkpoint(ready.seq, taken=False, why="disk full")
    await stage.until(Exited)

    assert Done({}, None) in stage.seen
    assert "checkpoint 1 was not taken: disk full" in stage.log.read_text()


async def test_a_job_asked_to_stop_stops_after_its_checkpoint(stage: Stage) -> None:
    await stage.start("checkpoints")
    stage.run()
    ready = await stage.until(CheckpointReady)
    stage.process.ask_stop()
    stage.process.answer_checkpoint(ready.seq, taken=True)
    stopped, exited = [event for event in await stage.to_end() if not isinstance(event, CheckpointReady)]

    assert (stopped, exited.code) == (Stopped(), 0)


async def test_a_job_that_watches_stopping_may_stop_by_itself(stage: Stage) -> None:
    await stage.start("stops-itself")
    stage.run()
    await stage.until(Progress)
    stage.process.ask_stop()
    stopped, _ = await stage.to_end()

    assert stopped == Stopped()


async def test_a_stop_that_comes_before_the_job_began_is_not_forgotten(stage: Stage) -> None:
    await stage.start("stops-itself")
    stage.run()
    stage.process.ask_stop()
    stopped, _ = await stage.to_end()

    assert stopped == Stopped()


async def test_a_checkpoint_that_is_not_there_fails_once(stage: Stage) -> None:
    await stage.start("no-checkpoint")
    stage.run()
    failed, _ = await stage.to_end()

    assert (failed.outcome, failed.code) == (Outcome.PERMANENT, "checkpoint-missing")
