"""What happens to the broker of a fleet happens to no job: each is started once, and workers hear what they must."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from deploy.local.rabbitmq import NEEDS, OLD_ENOUGH_S, RabbitMQ
from planrun.clock import SystemClock
from planrun.core.life import State
from planrun.transport.rabbitmq.link import Link

from ..fleet import Fleet
from ..lab import boottime

pytestmark = [pytest.mark.anyio, pytest.mark.needs(NEEDS), pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture
async def fleet(request: pytest.FixtureRequest, tmp_path: Path, rabbitmq: RabbitMQ) -> AsyncIterator[Fleet]:
    """With leases as long as a test's parameter says."""
    fleet = Fleet(tmp_path, broker=rabbitmq, lease_s=getattr(request, "param", Fleet.lease_s))
    fleet.start_orchestrator()
    for _ in range(2):
        fleet.start_worker()
    await fleet.ready(2)
    yield fleet
    await fleet.end()


async def every_job_ended_once(fleet: Fleet, jobs: list[str]) -> None:
    rows = await fleet.ended(*jobs, timeout_s=90)
    assert [row.state for row in rows] == [State.FINISHED] * len(jobs), fleet.last_words()
    assert sorted(start.job_id for start in fleet.starts()) == sorted(jobs)


async def test_a_broker_that_is_killed_and_one_that_forgets_everything_cost_no_job_a_second_start(
    fleet: Fleet, rabbitmq: RabbitMQ
) -> None:
    """C21, C29: with jobs that run, wait, or wait for their time, and leases shorter than the broker is away."""
    jobs = [await fleet.submit("nap", {"seconds": 2, "n": n}) for n in range(10)]
    delayed = [await fleet.submit("nap", {"seconds": 0, "n": n}, delay_s=7) for n in range(4)]
    await asyncio.to_thread(time.sleep, OLD_ENOUGH_S)  # what the broker itself needs

    await asyncio.to_thread(rabbitmq.kill)
    jobs += [await fleet.submit("nap", {"seconds": 2, "n": n}) for n in range(10, 14)]
    await asyncio.to_thread(rabbitmq.start)
    await asyncio.to_thread(rabbitmq.wipe)
    await asyncio.to_thread(rabbitmq.start)

    await every_job_ended_once(fleet, [*jobs, *delayed])


async def test_queues_that_are_deleted_are_filled_again(fleet: Fleet, rabbitmq: RabbitMQ) -> None:
    """C23: no job waits for ever in a queue that nobody has."""
    jobs = [await fleet.submit("nap", {"seconds": 0.5, "n": n}) for n in range(6)]
    await fleet.started(jobs[1], 1)
    link = Link(rabbitmq.url, SystemClock.open_system(), name="an operator")
    for name, *_ in await asyncio.to_thread(rabbitmq.queues):
        if name.startswith(f"{fleet.prefix}."):
            async with link.borrowed() as channel:
                await channel.queue_delete(name)
    await link.drop()
    jobs += [await fleet.submit("nap", {"seconds": 0.5, "n": n}) for n in range(6, 9)]

    await every_job_ended_once(fleet, jobs)


async def test_short_jobs_never_wait_behind_a_long_one_and_a_cancel_is_heard_at_once(fleet: Fleet) -> None:
    """C26: two workers with one place each; the second does all that is short meanwhile."""
    long = await fleet.submit("nap", {"seconds": 120})
    await fleet.started(long, 1)
    jobs = [await fleet.submit("nap", {"seconds": 0.2, "n": n}) for n in range(8)]

    rows = await fleet.ended(*jobs, timeout_s=20)
    assert {row.state for row in rows} == {State.FINISHED}

    canceled_s = boottime()
    await fleet.cancel(long)

    async def is_stopped() -> bool:
        return not (await fleet.job(long)).stopping

    await fleet.until(is_stopped, "the canceled job has stopped")
    assert boottime() - canceled_s < 5  # a heartbeat would be every two seconds; a lease is six


@pytest.mark.parametrize("fleet", [3.0], indirect=True)  # workers ask every five leases
async def test_workers_follow_a_fleet_that_gives_up_its_broker_and_one_that_has_one_again(fleet: Fleet) -> None:
    """Although the broker that it had goes on answering them."""
    first, jobs = fleet.broker, list[str]()
    for broker, said in ((None, "to no broker"), (first, "to another broker")):
        assert fleet.orchestrator is not None
        fleet.orchestrator.process.terminate()
        fleet.orchestrator.wait()
        fleet.broker = broker
        fleet.start_orchestrator()

        async def has_followed(said: str = said) -> bool:
            return all(f"follows its fleet {said}" in worker.text for worker in fleet.workers)

        await fleet.until(has_followed, f"both say {said!r}", timeout_s=60)
        jobs.append(await fleet.submit("nap", {"seconds": 0, "n": len(jobs)}))
        await every_job_ended_once(fleet, jobs)


async def test_workers_follow_a_fleet_to_another_broker_and_what_runs_goes_on(fleet: Fleet) -> None:
    running = await fleet.submit("nap", {"seconds": 20})
    await fleet.started(running, 1)
    other = await asyncio.to_thread(RabbitMQ)
    try:
        await asyncio.to_thread(other.start)
        assert fleet.broker is not None and fleet.orchestrator is not None
        await asyncio.to_thread(fleet.broker.stop)
        try:
            fleet.orchestrator.process.terminate()
            fleet.orchestrator.wait()
            first, fleet.broker = fleet.broker, other
            fleet.start_orchestrator()
            job = await fleet.submit("nap", {"seconds": 0})

            await every_job_ended_once(fleet, [running, job])
        finally:
            await asyncio.to_thread(first.start)
    finally:
        await asyncio.to_thread(other.remove)
