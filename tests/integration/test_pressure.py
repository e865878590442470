"""Leases under pressure: bulk submits beside them, job code that lets nobody else run."""

from __future__ import annotations

import pytest

from tests.lab import Lab, boottime
from tests.soak import bulk_submit
from tests.watching import renewals_of

pytestmark = [pytest.mark.anyio, pytest.mark.serial]


@pytest.mark.timeout(90)
async def test_no_lease_expires_while_four_processes_bulk_submit(lab: Lab) -> None:
    """C04: every slot runs a job on a 3 s lease; a heartbeat never waits for long behind the submits."""
    seen = await bulk_submit.bulk_submit(lab, seconds=4)

    assert seen.submitted > 1_000
    assert (seen.losses, seen.lost_events) == (0, 0)
    assert seen.starts == bulk_submit.WORKERS * bulk_submit.SLOTS
    assert seen.largest_gap_s < bulk_submit.LEASE_S


async def test_job_code_that_holds_the_gil_delays_no_renewal(lab: Lab) -> None:
    """C09: one long native call; the renewer lives in another process."""
    lease_s = 2.0
    lab.start_worker(lease_s=lease_s)
    await lab.ready(1)
    job_id = await lab.submit("spin", {"seconds": 5})
    await lab.started(job_id, 1)
    async with renewals_of(lab, [job_id], lease_s=lease_s) as renewals:
        (row,) = await lab.ended(job_id)

    assert row.state == "finished"
    assert renewals.looks > 50
    assert renewals.largest_gap_s < lease_s / 2
    assert len(lab.starts(job_id)) == 1


async def test_a_long_run_time_limit_delays_no_takeover(lab: Lab) -> None:
    """C17: how long a kind may run says nothing about how soon a dead worker is found: nap may run for a day."""
    first = lab.start_worker(lease_s=1, proof_of_death=False)
    await lab.ready(1)
    job_id = await lab.submit("nap", {"seconds": 3600})
    await lab.started(job_id, 1)
    lab.start_worker(lease_s=1, proof_of_death=False)
    await lab.ready(2)
    killed_at = first.kill()
    second = await lab.started(job_id, 2)

    assert second.at - killed_at < 2


async def test_an_idle_system_hardly_writes(lab: Lab) -> None:
    """C29: two workers with nothing to do and a delayed job that is far off: only their signs of life are written."""
    lease_s, seconds, workers = 3.0, 4.0, 2
    for _ in range(workers):
        lab.start_worker(lease_s=lease_s)
    await lab.ready(workers)
    await lab.submit("nap", delay_s=3600)

    commits, until = -1, boottime() + seconds  # the first call only begins to watch
    while (left := until - boottime()) > 0:
        await lab.ledger.changed(timeout_s=left + 1)
        commits += 1

    heartbeats = workers * (seconds / (lease_s / 3) + 1)
    assert 0 < commits <= heartbeats + 2  # a start may still be told when the watching begins


async def test_delays_and_back_off_fire_on_time_whoever_restarts_meanwhile(lab: Lab) -> None:
    """C29: waits live in the ledger; the workers are killed and started again all the time."""
    lab.start_worker(lease_s=2, slots=3)
    await lab.ready(1)
    submitted_at = boottime()
    delayed = [await lab.submit("nap", {"seconds": 0}, delay_s=4 + n / 10) for n in range(5)]
    failing = await lab.submit("hurl", {"error": "transient", "on_attempts": 2})
    await lab.started(failing, 1)
    for _ in range(2):
        await lab.until(lambda: idle(lab), "nothing runs")
        lab.workers[-1].kill()
        lab.start_worker(lease_s=2, slots=3)
        await lab.ready(len(lab.workers))
    await lab.ended(*delayed, failing)

    for n, job_id in enumerate(delayed):
        assert 0 <= lab.starts(job_id)[0].at - submitted_at - 4 - n / 10 < 2
    first, second, third = (start.at for start in lab.starts(failing))
    assert 2 <= second - first < 4
    assert 4 <= third - second < 6


async def idle(lab: Lab) -> bool:
    return (await lab.ledger.counts(None))["running"] == 0
