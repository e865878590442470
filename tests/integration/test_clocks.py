"""Clocks that jump and processes that stand still: only boottime decides, and silence has to be the holder's own."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

import pytest

from planrun.core.messages import Beat, Granted, GrantRequest, Handler, Lease, RenewRequest, SubmitRequest, WorkerRow
from planrun.core.offers import OfferQuery
from planrun.ledger.contract import Ledger
from planrun.wiring import open_ledger
from tests.contract.manual_clock import ManualClock
from tests.lab import Lab, boottime
from tests.soak import clocks
from tests.stepped_clock import SteppedClock

LEASE_MS = 9_000


def worker(kind: str) -> WorkerRow:
    return WorkerRow(
        incarnation=kind,
        name=kind,
        host="here",
        slots=1,
        handlers=(Handler(kind=kind, version="v1"),),
        lock_file="/nonexistent",
        lock_device=0,
        lock_inode=0,
    )


def job(kind: str, *, delay_s: float = 0) -> SubmitRequest:
    request_id = f"{kind}-{delay_s:g}"
    return SubmitRequest(
        request_id=request_id, kind=kind, content_hash=request_id, request_hash=request_id, delay_s=delay_s
    )


async def granted(ledger: Ledger, kind: str) -> Lease:
    handlers = (Handler(kind=kind, version="v1"),)
    (offer,) = await ledger.offers(OfferQuery(namespaces=("default",), handlers=handlers, capabilities=(), limit=9))
    answer = await ledger.grant(
        GrantRequest(job_id=offer.job_id, attempt=1, incarnation=kind, nonce="n", lease_ms=LEASE_MS)
    )
    assert isinstance(answer, Granted)
    return answer.lease


pytestmark = [pytest.mark.anyio, pytest.mark.serial]


def test_the_stepped_clock_moves_the_wall_and_nothing_else(tmp_path: Path) -> None:
    """Else the next test would show nothing."""
    clock = SteppedClock.new(tmp_path / "clock")
    for step in (-clocks.DAY, clocks.HOUR):
        clock.set(step)
        wall, boot = clock.reads()

        assert abs(wall - time.time() - step) < 5
        assert abs(boot - boottime()) < 5


async def test_a_wall_clock_that_jumps_changes_no_lease_and_no_wait(lab: Lab) -> None:
    """C12: by an hour and by days, forth and back, under two workers; a dead one is still found in time."""
    seen = await clocks.jumps(lab, delay_s=3, each_s=1.2)

    assert {step for step in seen.offsets_s if step} & set(clocks.STEPS)  # the workers did have another time
    assert (seen.starts, seen.lost) == (4, 0)
    assert clocks.on_time(seen, delay_s=3)


@pytest.mark.parametrize("step_s", [clocks.HOUR, -clocks.HOUR, clocks.DAY, -2 * clocks.DAY])
async def test_a_step_of_the_wall_clock_changes_nothing_that_a_ledger_decides(tmp_path: Path, step_s: int) -> None:
    """C12, in one process: leases, delays, and what the fleet is known to be able to do."""
    clock = ManualClock()
    ledger = open_ledger(f"sqlite:///{tmp_path / 'step.db'}", clock=clock)
    for kind in ("left", "right"):
        await ledger.register(worker(kind))
    await ledger.submit([job("left"), job("left", delay_s=10)])
    lease = await granted(ledger, "left")
    clock.jump_wall(step_s)
    clock.advance(5)

    assert await ledger.expire(stamp_ms=clock.boot_ms()) == 0
    assert await ledger.promote() == 0
    renewed = await ledger.renew(RenewRequest(incarnation="left", beats=(Beat(lease=lease),), lease_ms=LEASE_MS))
    assert [standing.status for standing in renewed] == ["held"]
    # Only one of the two workers has been heard of since the step; the other is known as before.
    (reply,) = await ledger.submit([job("right")])
    assert reply.state == "queued"

    clock.advance(5)
    assert await ledger.promote() == 1
    clock.advance(LEASE_MS / 1000)
    ended = 0
    for _ in range(20):  # after a time without a write the ledger gives holders a moment first
        ended += await ledger.expire(stamp_ms=clock.boot_ms())
        clock.advance(0.1)
    assert ended == 1
    assert await ledger.violations() == []
    await ledger.close()


async def test_a_frozen_worker_loses_its_job_and_stays_silent_afterwards(lab: Lab) -> None:
    """C14, one worker: another takes over; awake again, the frozen one leaves no second answer."""
    first = lab.start_worker(lease_s=1)
    await lab.ready(1)
    job_id = await lab.submit("render", {"seconds": 4})
    await lab.started(job_id, 1)
    lab.start_worker(lease_s=1)
    await lab.ready(2)
    first.signal(signal.SIGSTOP)
    await lab.started(job_id, 2)
    first.signal(signal.SIGCONT)
    (row,) = await lab.ended(job_id)

    assert (row.state, row.attempt, row.losses) == ("finished", 2, 1)
    await lab.check(job_id)
    await lab.scratch_empty()
    assert "is over: lost" in first.text


async def test_when_all_stood_still_a_healthy_job_goes_on(lab: Lab) -> None:
    """C14, the whole machine: three leases later all wake up, and whoever sweeps first lets the others renew."""
    workers = [lab.start_worker(lease_s=1.5, isolation="group") for _ in range(2)]
    await lab.ready(2)
    jobs = [await lab.submit("nap", {"seconds": 6}) for _ in workers]
    for job_id in jobs:
        await lab.started(job_id, 1)
    for worker in workers:
        worker.signal(signal.SIGSTOP)
    await asyncio.sleep(4.5)
    for worker in workers:
        worker.signal(signal.SIGCONT)
    rows = await lab.ended(*jobs)

    assert [row.state for row in rows] == ["finished", "finished"]
    assert [row.losses for row in rows] == [0, 0]
    await lab.check(*jobs)
