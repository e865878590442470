"""One of a worker's two ways is cut, for five lease lengths: its jobs go on, and each ends once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from deploy.local.rabbitmq import RabbitMQ
from planrun.core.life import State

from ..fleet import Fleet
from ..lab import boottime

pytestmark = [pytest.mark.anyio, pytest.mark.needs("rabbitmq-server"), pytest.mark.timeout(180)]

LEASE_S = 2.0
AWAY_S = 5 * LEASE_S


@pytest.fixture
async def fleet(tmp_path: Path, rabbitmq: RabbitMQ) -> AsyncIterator[Fleet]:
    fleet = Fleet(tmp_path, broker=rabbitmq, lease_s=LEASE_S)
    fleet.start_orchestrator()
    yield fleet
    await fleet.end()


async def running(fleet: Fleet) -> list[str]:
    """Jobs that end while it is away, with and without a file, and one that ends later."""
    for _ in range(2):
        fleet.start_worker(slots=2)
    await fleet.ready(2)
    jobs = [
        await fleet.submit("nap", {"seconds": 2}),
        await fleet.submit("render", {"seconds": 3, "bytes": 50_000}),
        await fleet.submit("nap", {"seconds": AWAY_S + 5}),
    ]
    for job_id in jobs:
        await fleet.started(job_id, 1)
    return jobs


async def all_ended_once(fleet: Fleet, jobs: list[str]) -> None:
    rows = await fleet.ended(*jobs)
    assert [(row.state, row.attempt, row.losses) for row in rows] == [(State.FINISHED, 1, 0)] * len(jobs)
    assert sorted(start.job_id for start in fleet.starts()) == sorted(jobs)
    assert await fleet.ledger.violations() == []


async def test_an_orchestrator_that_is_away_for_five_leases_costs_no_running_job(fleet: Fleet) -> None:
    jobs = await running(fleet)
    fleet.kill_orchestrator()
    await asyncio.sleep(AWAY_S)
    fleet.start_orchestrator()

    await all_ended_once(fleet, jobs)


async def test_a_broker_that_is_silent_for_five_leases_costs_no_running_job_and_no_lease(
    fleet: Fleet, rabbitmq: RabbitMQ
) -> None:
    jobs = await running(fleet)

    rabbitmq.freeze()
    try:
        await asyncio.sleep(AWAY_S)
        until_ms = (await fleet.job(jobs[2])).lease_until_ms
        assert until_ms is not None
        assert until_ms / 1000 > boottime()  # renewed all the while: the orchestrator itself was asked
        assert [(await fleet.job(job_id)).state for job_id in jobs[:2]] == [State.FINISHED] * 2
    finally:
        rabbitmq.thaw()

    later = await fleet.submit("nap", {"seconds": 0.1})
    await all_ended_once(fleet, [*jobs, later])
