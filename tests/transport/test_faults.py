"""The broker breaks in every way that it has; both ends come back by themselves, and nothing that matters was in it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from msgspec.structs import replace

from deploy.local.rabbitmq import CONSUMER_TIMEOUT_MS, NEEDS, RabbitMQ
from planrun.core.errors import TransportUnavailable
from planrun.core.flows import Marker
from planrun.transport.rabbitmq.fleet import RabbitFleet
from planrun.transport.rabbitmq.topology import Queue
from tests.contract.broker_faults_contract import (
    BEAT,
    HELD,
    LEASE,
    BrokerFaultsContract,
    next_job,
    outlive_a_kill,
    works,
)
from tests.contract.fleet_transport_contract import a_lease, some
from tests.contract.transport_contract import soon
from tests.transport.stage import CLOCK, Stage

pytestmark = [pytest.mark.needs(NEEDS), pytest.mark.anyio, pytest.mark.slow]


class TestFaults(BrokerFaultsContract):
    """Its stage is that of `conftest`."""


BOTH_TYPES = pytest.mark.parametrize("stage", ["queues=quorum", "queues=classic"], indirect=True)


@pytest.mark.timeout(180)
async def test_a_killed_broker_keeps_what_it_confirmed_and_both_ends_come_back(stages: list[Stage]) -> None:
    await outlive_a_kill(stages)


@BOTH_TYPES
async def test_queues_that_are_deleted_are_made_again(stage: Stage, rabbitmq: RabbitMQ) -> None:
    """C21, C23: a consumer that the broker has cancelled is as good as a lost connection."""
    await stage.join()
    await works(stage, epoch=1, job_id="before")
    for name, *_ in await asyncio.to_thread(rabbitmq.queues):
        if name.startswith(f"{stage.topology.prefix}."):
            await stage.delete(Queue(name, {}))

    async def is_noticed() -> bool:
        return stage.fleet.breaks == 1

    await soon(is_noticed)
    await works(stage, epoch=2, job_id="after")


async def test_an_exchange_deleted_before_a_queue_that_is_well_is_noticed_by_the_next_marker(
    stage: Stage,
) -> None:
    """Its queue and consumer live on, so no lease would end any more: no marker arrives, and no break shows."""
    await stage.join()
    await works(stage, epoch=1, job_id="before")
    async with stage.outside.borrowed() as channel:
        await channel.exchange_delete(stage.topology.beat_exchange)
    with pytest.raises(TransportUnavailable, match="new epoch"):
        await stage.fleet.mark(Marker(stamp_ms=1, nonce="n"))
    assert stage.fleet.breaks == 1
    await works(stage, epoch=2, job_id="after")


async def test_a_second_orchestrator_with_the_same_prefix_takes_no_heartbeats(stage: Stage) -> None:
    """Its ledger knows none of the leases: it would tell their workers that they are lost."""
    await stage.join()
    await works(stage, epoch=1, job_id="before")
    second = RabbitFleet(stage.broker, CLOCK, generation=1)
    try:
        with pytest.raises(TransportUnavailable, match="--broker-prefix"):
            await second.begin_epoch(7)
        assert await stage.workers[0].beat(BEAT) is None
        assert await some(stage.fleet, 1) == [BEAT]
        assert stage.fleet.breaks == 0

        await works(stage, epoch=2, job_id="again")
        await stage.fleet.close()
        async with asyncio.timeout(10):
            await begun(second, 8)
        assert await stage.workers[0].beat(BEAT) is None
        assert await some(second, 1) == [BEAT]
    finally:
        await second.close()


async def begun(fleet: RabbitFleet, epoch: int) -> None:
    while True:
        with suppress(TransportUnavailable):
            return await fleet.begin_epoch(epoch)
        await asyncio.sleep(0.05)


async def test_a_lane_that_was_deleted_behind_a_busy_worker_is_there_once_it_has_room(stage: Stage) -> None:
    """It had no consumer that the broker could have canceled."""
    worker = await stage.join()
    await worker.offers(1)
    await worker.offers(0)
    await stage.delete(stage.lane)
    await worker.offers(1)
    await stage.offer("j1")

    assert (await next_job(worker)).offer.job_id == "j1"


async def test_epochs_that_could_not_begin_leave_nothing_behind(
    stage: Stage, rabbitmq: RabbitMQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each try is an epoch of its own: a broker that is in trouble for an hour would be full of them."""
    await stage.epoch(1)
    with monkeypatch.context() as patched:
        patched.setattr("planrun.transport.rabbitmq.fleet.Beats.consume", refuse)
        for epoch in (2, 3):
            with pytest.raises(TransportUnavailable):
                await stage.fleet.begin_epoch(epoch)
    await stage.epoch(4)

    mine = stage.topology.beats(1, 4).name.rpartition(".")[0]
    names = [name for name, *_ in await asyncio.to_thread(rabbitmq.queues) if name.startswith(f"{mine}.")]
    assert names == [f"{mine}.4"]


async def refuse(*_: object) -> None:
    raise TransportUnavailable("as asked")


async def test_a_purge_breaks_nothing(stage: Stage) -> None:
    await stage.join()
    await works(stage, epoch=1, job_id="before")
    for queue in (stage.lane, stage.topology.beats(1, 1), stage.topology.control("w1")):
        async with stage.outside.borrowed() as channel:
            await channel.queue_purge(queue.name)

    await works(stage, epoch=2, job_id="after")
    assert stage.fleet.breaks == 0


@pytest.mark.parametrize("stage", ["heartbeat=1"], indirect=True)
async def test_a_frozen_broker_is_given_up_and_leaves_a_heartbeat_time_to_ask_the_ledger(
    stage: Stage, rabbitmq: RabbitMQ
) -> None:
    await stage.join()
    await works(stage, epoch=1, job_id="before")
    rabbitmq.freeze()
    try:
        async with asyncio.timeout(1):  # a third of this lease
            assert await stage.workers[0].beat(replace(BEAT, lease_ms=3_000)) == HELD

        async def is_given_up() -> bool:
            return stage.fleet.breaks == 1

        await soon(is_given_up)
    finally:
        rabbitmq.thaw()

    await works(stage, epoch=2, job_id="after")


async def test_an_offer_that_nobody_acknowledges_comes_again_over_a_new_channel(
    stages: list[Stage], rabbitmq: RabbitMQ
) -> None:
    """C20: the broker has closed the channel. (planrun gives an offer back long before.)"""

    async def goes_on(stage: Stage) -> None:
        worker = await stage.join()
        await stage.offer("j1")
        first = await next_job(worker)
        again = await next_job(worker)
        assert again.offer == first.offer
        await first.done()  # over a channel that has gone: that is nothing to anybody
        await again.done()
        await works(stage, epoch=1, job_id="after")

    async with impatient(rabbitmq):
        await asyncio.gather(*(goes_on(stage) for stage in stages))


async def test_whoever_works_for_longer_than_the_brokers_patience_keeps_its_channel(
    stages: list[Stage], rabbitmq: RabbitMQ, caplog: pytest.LogCaptureFixture
) -> None:
    """C20: the offer was acknowledged before the job began, so there is nothing to wait for."""

    async def keeps_its_channel(stage: Stage) -> None:
        worker = await stage.join()
        await stage.epoch(1)
        await stage.offer("long")
        await (await next_job(worker)).done(LEASE)
        for _ in range(6):  # it works for three seconds, and takes short jobs meanwhile
            await stage.offer("short")
            await (await next_job(worker)).done(a_lease(2))
            await worker.offers(0)
            assert await worker.beat(BEAT) is None
            await some(stage.fleet, 1)
            await asyncio.to_thread(time.sleep, 0.5)
        assert stage.fleet.breaks == 0

    async with impatient(rabbitmq):
        await asyncio.gather(*(keeps_its_channel(stage) for stage in stages))

    assert "will try again" not in caplog.text


@asynccontextmanager
async def impatient(rabbitmq: RabbitMQ) -> AsyncIterator[None]:
    """A broker that closes channels whose messages are unacknowledged for a second."""
    await asyncio.to_thread(rabbitmq.set_consumer_timeout, 1_000)
    try:
        yield
    finally:
        await asyncio.to_thread(rabbitmq.set_consumer_timeout, CONSUMER_TIMEOUT_MS)
