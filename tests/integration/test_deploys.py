"""SIGTERM: work is handed over at once, nothing is charged, and the worker leaves with 0."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from planrun.core.life import State
from tests.lab import ROOT, Lab, boottime, children_of
from tests.soak.deploys import with_checkpoints, without_checkpoints

pytestmark = [pytest.mark.anyio, pytest.mark.serial]

LONG_LEASE_S = 60


async def test_c37_deploys_in_a_row_hand_a_job_on_within_a_second_each(lab: Lab) -> None:
    """No checkpoint support: every attempt starts over, within 1 s of the SIGTERM, and no budget but one is spent."""
    print(await without_checkpoints(lab, 4))


@pytest.mark.parametrize("lazy", [False, True], ids=["after every step", "when asked"])
async def test_deploys_in_a_row_lose_no_step_of_a_job_that_leaves_checkpoints(lab: Lab, lazy: bool) -> None:
    """It resumes at every hand-over, within the time of its checkpoint and a second, and finishes."""
    print(await with_checkpoints(lab, 3, lazy=lazy))


async def test_c48_a_second_sigterm_hands_back_at_once(lab: Lab) -> None:
    """Given two minutes to end by itself, the job goes on; told again, the worker does not wait for it."""
    worker = lab.start_worker(lease_s=LONG_LEASE_S, drain_grace_s=120)
    await lab.ready(1)
    job_id = await lab.submit("nap", {"seconds": 60})
    await lab.started(job_id, 1)
    late = await lab.submit("nap", {"seconds": 0})
    worker.signal(signal.SIGTERM)

    async def drains() -> bool:
        return [row.state for row in await lab.ledger.workers()] == ["draining"]

    await lab.until(drains, "the worker drains")
    assert (await lab.job(job_id)).state is State.RUNNING
    told_at = worker.signal(signal.SIGTERM)

    assert worker.wait(5) == 0
    assert boottime() - told_at < 1
    row = await lab.job(job_id)
    assert (row.state, row.attempt, row.failures, row.losses, row.handbacks) == (State.QUEUED, 2, 0, 0, 1)
    assert lab.starts(late) == []
    assert lab.left_processes() == []


async def test_c48_a_job_that_ends_within_its_drain_time_is_not_handed_back(lab: Lab) -> None:
    """The worker waits for it, takes nothing else meanwhile, and leaves right after."""
    worker = lab.start_worker(lease_s=1, drain_grace_s=30)
    await lab.ready(1)
    job_id = await lab.submit("nap", {"seconds": 2})
    late = await lab.submit("nap", {"seconds": 0})
    await lab.started(job_id, 1)
    worker.signal(signal.SIGTERM)

    assert worker.wait(10) == 0
    assert (await lab.job(job_id)).state is State.FINISHED
    assert len(lab.starts(job_id)) == 1
    assert lab.starts(late) == []


async def test_c48_a_sigterm_that_comes_while_the_worker_starts_is_obeyed_too(lab: Lab) -> None:
    """Told as soon as its lock file is there, before it has registered: it leaves with 0, and its file is gone."""
    job_id = await lab.submit("nap", {"seconds": 0})
    worker = lab.start_worker()

    async def has_its_lock() -> bool:
        return lab.place.workers.exists() and bool(list(lab.place.workers.iterdir()))

    await lab.until(has_its_lock, "the worker holds its lock", every_s=0)
    worker.signal(signal.SIGTERM)

    assert worker.wait(10) == 0
    assert lab.starts(job_id) == []
    assert list(lab.place.workers.iterdir()) == []


async def test_a_job_granted_at_the_moment_of_a_deploy_is_handed_back_without_a_wait(lab: Lab) -> None:
    """SIGTERM while the grant is being committed: its code never began, and the next worker may start it at once."""
    trips = lab.folder / "trips"
    trips.mkdir()
    worker = lab.start_worker(lease_s=LONG_LEASE_S, environment={"PLANRUN_TRIP_DIR": str(trips)})
    await lab.ready(1)
    (trips / "grant:written").touch()
    submitting = asyncio.create_task(lab.submit("nap", {"seconds": 0}))

    async def in_the_grant() -> bool:
        return bool(list(trips.glob("*.reached")))

    await lab.until(in_the_grant, "the worker stands in its transaction")
    worker.signal(signal.SIGTERM)
    worker.signal(signal.SIGCONT)

    assert worker.wait() == 0
    job_id = await submitting
    row = await lab.job(job_id)
    assert (row.state, row.attempt, row.handbacks, row.not_before_ms) == (State.QUEUED, 2, 1, 0)
    assert lab.starts(job_id) == []


async def test_an_answer_that_is_being_delivered_at_a_deploy_is_delivered_once(lab: Lab) -> None:
    """The receiver takes half a second; the worker that leaves waits for it, so that nobody sends it again."""
    worker = lab.start_worker()
    await lab.ready(1)
    await lab.submit("nap", {"seconds": 0}, subscribers=(lab.receiver(seconds=0.5),))

    async def being_delivered() -> bool:
        return bool(lab.received())

    await lab.until(being_delivered, "the answer is being delivered")
    assert lab.rows("SELECT confirmed FROM outbox") == [(0,)]
    worker.signal(signal.SIGTERM)

    assert worker.wait(5) == 0
    assert lab.rows("SELECT tries, confirmed FROM outbox") == [(1, 1)]


@contextmanager
def container(lab: Lab, shell: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process table of its own, in which `sh -c` of this line is process 1."""
    worker = f"{sys.executable} -m tests.worker_main {lab.url} '{json.dumps({'lease_s': LONG_LEASE_S})}'"
    unshare = [shutil.which("unshare") or "", "--pid", "--fork", "--mount-proc", "sh", "-c"]
    process = subprocess.Popen([*unshare, shell.replace("WORKER", worker)], cwd=ROOT)
    try:
        yield process
    finally:
        for pid in children_of(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.wait()


@pytest.mark.needs("unshare")
@pytest.mark.needs_root
@pytest.mark.parametrize("shell", ["exec WORKER", "WORKER & trap 'kill -TERM $!' TERM; wait $!; wait $!"])
async def test_c48_sigterm_reaches_a_worker_below_a_shell_that_is_process_1(lab: Lab, shell: str) -> None:
    """As in a container: the shell became the worker, or passes the signal on. Another worker goes on within a second.

    The two have different process tables, so the pid that the ledger knows says nothing.
    """
    with container(lab, shell) as outside:
        await lab.ready(1)
        job_id = await lab.submit("nap", {"seconds": 60})
        await lab.started(job_id, 1)
        lab.start_worker(lease_s=LONG_LEASE_S)
        await lab.ready(2)
        [first] = children_of(outside.pid)
        told_at = boottime()
        os.kill(first, signal.SIGTERM)
        second = await lab.started(job_id, 2)
        code = outside.wait(10)

    row = await lab.job(job_id)
    assert second.at - told_at < 1
    assert code == 0
    assert (row.failures, row.losses, row.handbacks) == (0, 0, 1)


@pytest.mark.needs("unshare")
@pytest.mark.needs_root
async def test_c48_a_container_that_is_killed_without_a_word_is_proven_dead(lab: Lab) -> None:
    """A shell as process 1 swallows SIGTERM; then comes SIGKILL. Its pid means nothing outside, the lock does."""
    with container(lab, "WORKER; true") as outside:
        await lab.ready(1)
        job_id = await lab.submit("nap", {"seconds": 60})
        await lab.started(job_id, 1)
        lab.start_worker(lease_s=LONG_LEASE_S)
        await lab.ready(2)
        [first] = children_of(outside.pid)
        os.kill(first, signal.SIGTERM)
        assert (await lab.job(job_id)).attempt == 1
        killed_at = boottime()
        os.kill(first, signal.SIGKILL)
        second = await lab.started(job_id, 2)

    row = await lab.job(job_id)
    assert (row.failures, row.losses, row.handbacks) == (0, 1, 0)
    assert second.at - killed_at < 6  # a sweep finds it, not the watch on its pid


async def test_a_terminal_that_closes_hands_the_job_back(lab: Lab) -> None:
    """SIGHUP is a deploy, too; a worker under `nohup` ignores it, so these tests may run under it only with care."""
    ignored = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        worker = lab.start_worker(lease_s=LONG_LEASE_S)
    finally:
        signal.signal(signal.SIGHUP, ignored)
    await lab.ready(1)
    job_id = await lab.submit("nap", {"seconds": 60})
    await lab.started(job_id, 1)
    worker.signal(signal.SIGHUP)

    assert await asyncio.to_thread(worker.wait) == 0
    row = await lab.job(job_id)
    assert (row.state, row.losses, row.handbacks) == (State.QUEUED, 0, 1)
