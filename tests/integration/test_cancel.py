"""Cancel: the job is over at once, its processes within two seconds, and nobody is told anything else."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from planrun.core.life import State
from tests.lab import Lab, alive_with_mark, boottime
from tests.soak.cancel_crossings import cross

pytestmark = [pytest.mark.anyio, pytest.mark.serial]

LEVELS = ("full", "subreaper", "group")
LONG_LEASE_S = 60  # so that no heartbeat happens to bring the news


async def broods(lab: Lab, marks: Path, **fields: object) -> str:
    """A job with a setsid child and a daemon, which both ignore SIGTERM and write as long as they live."""
    marks.mkdir(exist_ok=True)
    job_id = await lab.submit("brood", {"marks": str(marks), "seconds": 60}, **fields)

    async def both_live() -> bool:
        return len(list(marks.iterdir())) == 2

    await lab.until(both_live, "grandchildren live")
    return job_id


@pytest.mark.parametrize("level", LEVELS)
async def test_c46_a_canceled_tree_is_dead_within_two_seconds_and_only_then_is_its_slot_free(
    lab: Lab, tmp_path: Path, level: str
) -> None:
    """It ignores SIGTERM and has children that left its session. `stopping` says so until the last one is dead."""
    worker = lab.start_worker(lease_s=LONG_LEASE_S, isolation=level)
    await lab.ready(1)
    marks = tmp_path / "marks"
    job_id = await broods(lab, marks, subscribers=(lab.receiver(),))
    after = await lab.submit("nap", {"seconds": 0})
    asked_at = boottime()
    reply = await lab.cancel(job_id, who="me", why="changed my mind")
    row = await lab.job(job_id)
    next_start = await lab.started(after, 1)
    last_sign = max(float(path.read_text().split()[-1]) for path in marks.iterdir())

    assert (reply.canceled, row.state, row.stopping) == (True, State.CANCELED, True)
    assert last_sign - asked_at < 2
    assert last_sign < next_start.at
    await lab.ended(after)
    assert not (await lab.job(job_id)).stopping
    assert lab.job_processes() == []
    assert alive_with_mark(marks) == []
    assert await lab.cancel(job_id) != reply
    await lab.delivered()
    await lab.check_answers("app")
    assert worker.process.poll() is None


async def test_c46_a_canceled_job_is_stopping_while_its_worker_is_frozen(lab: Lab, tmp_path: Path) -> None:
    """Canceled is what the ledger says; stopped is what has been seen. Killed with its worker, it counts as stopped."""
    worker = lab.start_worker(lease_s=LONG_LEASE_S)
    await lab.ready(1)
    job_id = await broods(lab, tmp_path / "marks")
    lab.start_worker(lease_s=LONG_LEASE_S)
    await lab.ready(2)
    worker.signal(signal.SIGSTOP)
    await lab.cancel(job_id)

    assert alive_with_mark(tmp_path / "marks")
    assert (await lab.job(job_id)).stopping

    worker.kill()

    async def stopped() -> bool:
        return not (await lab.job(job_id)).stopping

    await lab.until(stopped, "it is stopped")
    assert alive_with_mark(tmp_path / "marks") == []
    await lab.check(job_id)


async def test_c49_a_draining_worker_still_hears_a_cancel(lab: Lab, tmp_path: Path) -> None:
    """It would let its job go on for two minutes: canceled, the tree dies at once, and the worker exits right after."""
    worker = lab.start_worker(lease_s=LONG_LEASE_S, drain_grace_s=120)
    await lab.ready(1)
    job_id = await broods(lab, tmp_path / "marks")
    worker.signal(signal.SIGTERM)

    async def drains() -> bool:
        return [row.state for row in await lab.ledger.workers()] == ["draining"]

    await lab.until(drains, "the worker drains")
    assert alive_with_mark(tmp_path / "marks")
    asked_at = boottime()
    await lab.cancel(job_id)

    assert worker.wait(5) == 0
    assert boottime() - asked_at < 2
    assert alive_with_mark(tmp_path / "marks") == []
    row = await lab.job(job_id)
    assert (row.state, row.stopping, row.attempt) == (State.CANCELED, False, 1)


async def test_a_cancel_that_comes_before_the_worker_listens_is_heard_at_once(lab: Lab) -> None:
    """Canceled by whoever sees it granted first: its code is stopped within two seconds, long before a heartbeat."""
    lab.start_worker(lease_s=LONG_LEASE_S)
    await lab.ready(1)
    for n in range(10):
        job_id = await lab.submit("nap", {"seconds": 60, "n": n})

        async def is_running(job_id: str = job_id) -> bool:
            return (await lab.job(job_id)).state is State.RUNNING

        await lab.until(is_running, "it runs", every_s=0)
        asked_at = boottime()
        await lab.cancel(job_id)

        async def stopped(job_id: str = job_id) -> bool:
            return not (await lab.job(job_id)).stopping

        await lab.until(stopped, "it is stopped")
        assert boottime() - asked_at < 2


async def test_cancels_that_cross_a_claim_a_finish_or_a_hand_back_leave_one_truth(lab: Lab) -> None:
    """State, message, file and processes agree with what the cancel was answered."""
    print(await cross(lab, 48, seed=7))
