"""A worker that stands still for four leases, at every place where that hurts, and then goes on."""

from __future__ import annotations

import asyncio
import hashlib
import signal
import time
from pathlib import Path

import anyio.to_thread
import pytest

from planrun.core.errors import LedgerBusy
from planrun.core.life import State
from planrun.orchestrator.collector import Collector
from planrun.wiring import open_ledger, open_store
from tests.lab import Lab, WorkerProcess

pytestmark = pytest.mark.anyio

LEASE_S = 1.0
PLACES = ("fence:after-check", "upload:chunk", "upload:before-rename", "settle:before")


async def frozen_at(lab: Lab, trips: Path, place: str) -> None:
    """Wait until a process has stopped itself at a place."""

    await lab.until(
        lambda: anyio.to_thread.run_sync(list, trips.glob(f"{place}.*")), f"a worker stands still at {place}"
    )


async def collect(lab: Lab) -> None:
    await Collector(lab.ledger, open_store(lab.url), scratch=lab.place.scratch, gc_grace_s=0).tick(0)


async def check_only_the_second_is_visible(lab: Lab, job_id: str, stale: WorkerProcess) -> None:
    """After the stale worker went on: refused, logged, silent, and its files are collected."""

    async def refused() -> bool:
        attempts = await lab.attempts(job_id)
        return attempts[0].stopped and ("refused" in stale.text or "is over" in stale.text)

    await lab.until(refused, "the stale attempt is refused and has stopped")
    await collect(lab)
    result = await lab.result(job_id)

    assert (result.state, result.attempt) == (State.FINISHED, 2)
    assert list(lab.stored()) == [output.key for output in result.outputs]
    digest = hashlib.sha256(lab.stored()[result.outputs[0].key].read_bytes()).hexdigest()
    assert digest == result.outputs[0].sha256
    assert [attempt.outcome for attempt in await lab.attempts(job_id)] == ["lost", "success"]
    await lab.check(job_id)
    await lab.scratch_empty()


@pytest.mark.parametrize("place", PLACES)
async def test_a_worker_frozen_on_the_way_to_its_result_changes_nothing(lab: Lab, tmp_path: Path, place: str) -> None:
    """C07: it believed in its lease, slept, and wakes up with an upload or a settle in its hands."""
    trips = tmp_path / "trips"
    trips.mkdir()
    (trips / place).touch()
    stale = lab.start_worker(environment={"PLANRUN_TRIP_DIR": str(trips)}, lease_s=LEASE_S)
    await lab.ready(1)
    job_id = await lab.submit("render", {"bytes": 5_000_000, "seconds": 0.3})
    await frozen_at(lab, trips, place)
    lab.start_worker(lease_s=LEASE_S)
    await lab.ended(job_id)
    await asyncio.sleep(4 * LEASE_S)
    stale.signal(signal.SIGCONT)

    await check_only_the_second_is_visible(lab, job_id, stale)


async def test_a_worker_frozen_while_its_job_runs_changes_nothing(lab: Lab) -> None:
    """C07, C14: SIGSTOP of the worker alone; its job goes on and ends, and nobody hears of it."""
    stale = lab.start_worker(lease_s=LEASE_S)
    await lab.ready(1)
    job_id = await lab.submit("render", {"bytes": 100_000, "seconds": 2})
    await lab.started(job_id, 1)
    stale.signal(signal.SIGSTOP)
    lab.start_worker(lease_s=LEASE_S)
    await lab.ended(job_id)
    await asyncio.sleep(LEASE_S)
    stale.signal(signal.SIGCONT)

    await check_only_the_second_is_visible(lab, job_id, stale)


async def test_a_worker_frozen_inside_a_transaction_is_named_and_costs_nothing_but_time(
    lab: Lab, tmp_path: Path
) -> None:
    """Others wait, or fail with the holder named; afterwards everything goes on, with one answer."""
    trips = tmp_path / "trips"
    trips.mkdir()
    holder = lab.start_worker(environment={"PLANRUN_TRIP_DIR": str(trips)}, lease_s=LEASE_S)
    await lab.ready(1)
    job_id = await lab.submit("render", {"bytes": 100_000, "seconds": 3})
    await lab.started(job_id, 1)
    lab.start_worker(lease_s=LEASE_S)
    await lab.ready(2)
    (trips / "ledger:before-commit").touch()
    await frozen_at(lab, trips, "ledger:before-commit")
    impatient = open_ledger(lab.url, wait_s=0.5)
    began = time.monotonic()
    with pytest.raises(LedgerBusy) as busy:
        await impatient.promote()
    await asyncio.sleep(max(0, 4 * LEASE_S - (time.monotonic() - began)))
    holder.signal(signal.SIGCONT)
    await lab.ended(job_id)

    assert busy.value.holder_pid == holder.process.pid
    assert f"kill -CONT {holder.process.pid}" in str(busy.value)
    result = await lab.result(job_id)
    assert result.state is State.FINISHED
    await lab.check(job_id)
    await impatient.close()
