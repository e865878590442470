"""A ledger that others lock: no job's fate depends on it."""

from __future__ import annotations

import asyncio

import pytest

from tests.lab import Lab
from tests.soak import outside_lock

pytestmark = [pytest.mark.anyio, pytest.mark.serial]


async def test_locks_held_by_another_program_change_no_effect(lab: Lab) -> None:
    """C30: for longer than a lease while jobs run and cancels arrive; nothing is lost, nobody crashes."""
    seen = await outside_lock.lock_from_outside(lab, (1, 4.5), jobs=20, cancels=100)

    assert seen.untrue == 0
    assert (seen.lost, seen.alive) == (0, 2)
    assert seen.states["canceled"] >= 90
    assert seen.states["canceled"] + seen.states["finished"] == 110


async def test_leases_that_run_out_while_nothing_can_be_written_all_come_back(lab: Lab) -> None:
    """C19: the leases of a dead worker expire during a lock of 5 s; nothing is forgotten afterwards."""
    first = lab.start_worker(lease_s=2, slots=20, proof_of_death=False)
    await lab.ready(1)
    jobs = [await lab.submit("nap", {"seconds": 3600}) for _ in range(20)]
    for job_id in jobs:
        await lab.started(job_id, 1)
    lab.start_worker(lease_s=2, slots=20, proof_of_death=False)
    await lab.ready(2)
    async with outside_lock.locked(lab, [5]):
        first.kill()
        await asyncio.sleep(4)  # the leases run out now
        assert len(lab.starts()) == 20

        for job_id in jobs:
            await lab.started(job_id, 2)
    assert len(lab.starts()) == 40


async def test_a_living_worker_keeps_its_leases_through_a_lock_that_is_longer(lab: Lab) -> None:
    """The lock says nothing about the holder: whoever sweeps first afterwards lets it renew."""
    lease_s = 1.0
    for _ in range(3):
        lab.start_worker(lease_s=lease_s, slots=1)
    await lab.ready(3)
    jobs = [await lab.submit("nap", {"seconds": 6}) for _ in range(2)]
    for job_id in jobs:
        await lab.started(job_id, 1)
    async with outside_lock.locked(lab, [3.5 * lease_s]):
        rows = await lab.ended(*jobs)

    assert [(row.state, row.losses) for row in rows] == [("finished", 0)] * 2


async def test_looking_through_the_line_for_jobs_that_nobody_can_run_keeps_no_writer_out(lab: Lab) -> None:
    """With a million jobs it takes seconds; it needs no turn of a writer, and so delays no heartbeat."""
    await lab.submit("nap")
    async with outside_lock.locked(lab, [30]):
        async with asyncio.timeout(5):
            assert await lab.ledger.end_unsupported(waited_ms=0) == 0
