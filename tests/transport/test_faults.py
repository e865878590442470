"""The broker breaks in every way that it has; both ends come back by themselves, and nothing that matters was in it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from deploy.local.rabbitmq import CONSUMER_TIMEOUT_MS, NEEDS, OLD_ENOUGH_S, RabbitMQ
from planrun.core.errors import LedgerUnavailable, TransportUnavailable
from planrun.core.flows import Marker, Notice
from tests.contract.fleet_transport_contract import LANE, a_lease, an_offer, some
from tests.contract.transport_contract import soon
from tests.transport.stage import BEAT, HELD, LEASE, Stage, next_job

pytestmark = [pytest.mark.needs(NEEDS), pytest.mark.anyio, pytest.mark.slow]

BOTH_TYPES = pytest.mark.parametrize("stage", ["queues=quorum", "queues=classic"], indirect=True)


async def works(stage: Stage, *, epoch: int, job_id: str) -> None:
    """Offers, heartbeats, markers and words get through; at most half a minute after whatever happened (C21)."""
    [worker] = stage.workers
    await stage.epoch(epoch)
    await stage.offer(job_id)
    async with asyncio.timeout(40):
        while (delivery := await next_job(worker)).offer.job_id != job_id:
            await delivery.done()
    await delivery.done()

    async def beat() -> bool:
        return await worker.beat(BEAT) is None

    await soon(beat)
    await stage.fleet.mark(Marker(stamp_ms=epoch, nonce="n"))
    assert (await some(stage.fleet, 2))[-1] == Marker(stamp_ms=epoch, nonce="n")

    async def hear() -> bool:
        await stage.fleet.tell("w1", Notice(drained=True))
        return Notice(drained=True) in await worker.notices([])

    await soon(hear)


@pytest.mark.timeout(180)
async def test_a_killed_broker_keeps_what_it_confirmed_and_both_ends_come_back(
    stages: list[Stage], rabbitmq: RabbitMQ
) -> None:
    """C21, and the broker killed under load: offers it has confirmed come after its restart."""
    for stage in stages:
        worker = await stage.join()
        await works(stage, epoch=1, job_id="before")
        await worker.offers(0)
        await stage.offer("kept")
    await asyncio.to_thread(time.sleep, OLD_ENOUGH_S)  # what the broker itself needs

    await asyncio.to_thread(rabbitmq.kill)
    try:
        for stage in stages:
            await is_cut_off(stage)
    finally:
        await asyncio.to_thread(rabbitmq.start)

    for stage in stages:
        delivery = await next_job(stage.workers[0])
        assert delivery.offer.job_id == "kept"
        await delivery.done()
        await works(stage, epoch=2, job_id="after")
        assert stage.fleet.breaks == 1


async def is_cut_off(stage: Stage) -> None:
    """Nothing is offered, nothing counts as sent, and heartbeats go to the ledger."""
    [worker] = stage.workers
    with pytest.raises(TransportUnavailable):
        await stage.fleet.send_offer(LANE, an_offer("lost"))
    assert await worker.beat(BEAT) == HELD
    stage.ledger.is_there = False
    with pytest.raises(LedgerUnavailable):
        await worker.beat(BEAT)
    assert list(await worker.offers(1)) == []


@pytest.mark.timeout(180)
async def test_a_broker_that_forgot_everything_and_one_that_was_not_there_yet(stage: Stage, rabbitmq: RabbitMQ) -> None:
    """C21, and the broker's data deleted: what was offered is offered again by whoever owns the ledger."""
    await asyncio.to_thread(rabbitmq.stop)
    try:
        worker = await stage.join()
        assert list(await worker.offers(1)) == []
    finally:
        await asyncio.to_thread(rabbitmq.start)
    await works(stage, epoch=1, job_id="first")

    await asyncio.to_thread(rabbitmq.wipe)
    await asyncio.to_thread(rabbitmq.start)

    await works(stage, epoch=2, job_id="second")


@BOTH_TYPES
async def test_queues_that_are_deleted_are_made_again(stage: Stage, rabbitmq: RabbitMQ) -> None:
    """C21, C23: a consumer that the broker has cancelled is as good as a lost connection."""
    await stage.join()
    await works(stage, epoch=1, job_id="before")
    for name, *_ in await asyncio.to_thread(rabbitmq.queues):
        if name.startswith(f"{stage.topology.prefix}."):
            async with stage.outside.borrowed() as channel:
                await channel.queue_delete(name)

    async def is_noticed() -> bool:
        return stage.fleet.breaks == 1

    await soon(is_noticed)
    await works(stage, epoch=2, job_id="after")


async def test_a_lane_that_was_deleted_behind_a_busy_worker_is_there_once_it_has_room(stage: Stage) -> None:
    """It had no consumer that the broker could have canceled."""
    worker = await stage.join()
    await worker.offers(1)
    await worker.offers(0)
    async with stage.outside.borrowed() as channel:
        await channel.queue_delete(stage.lane.name)
    await worker.offers(1)
    await stage.offer("j1")

    assert (await next_job(worker)).offer.job_id == "j1"


async def test_a_missing_exchange_sends_heartbeats_to_the_ledger(stage: Stage) -> None:
    """C14 of the protocol: what the broker took and threw away has not arrived."""
    worker = await stage.join()
    assert await worker.beat(BEAT) == HELD

    await stage.epoch(1)
    assert await worker.beat(BEAT) is None

    async with stage.outside.borrowed() as channel:
        await channel.queue_unbind(stage.topology.beats(1, 1).name, stage.topology.beat_exchange)
    assert await worker.beat(BEAT) == HELD
    with pytest.raises(TransportUnavailable, match="new epoch"):
        await stage.fleet.mark(Marker(stamp_ms=1, nonce="n"))


async def test_a_break_that_nobody_has_seen_is_shown_again(stage: Stage) -> None:
    """It may happen just as a new epoch has begun: whoever looked then would wait for heartbeats for ever."""
    await stage.epoch(1)
    async with stage.outside.borrowed() as channel:
        await channel.queue_delete(stage.topology.beats(1, 1).name)

    async def is_noticed() -> bool:
        return stage.fleet.breaks == 1

    await soon(is_noticed)
    assert list(await stage.fleet.beats(timeout_s=0.01)) == []
    assert stage.fleet.breaks == 2


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


async def test_while_the_broker_is_short_of_memory_acknowledgements_and_heartbeats_get_through(
    stage: Stage, rabbitmq: RabbitMQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("planrun.transport.rabbitmq.sender.SEND_S", 0.5)
    worker = await stage.join()
    await works(stage, epoch=1, job_id="before")
    await stage.offer("j1")
    delivery = await next_job(worker)
    await asyncio.to_thread(rabbitmq.alarm, True)
    try:
        assert await worker.beat(BEAT) == HELD  # by the ledger: the broker reads from nobody who publishes
        with pytest.raises(TransportUnavailable):
            await stage.fleet.send_offer(LANE, an_offer("later"))
        await delivery.done(LEASE)

        async def is_acknowledged() -> bool:
            counted = await asyncio.to_thread(rabbitmq.queues, "messages")
            return [stage.lane.name, "0"] in counted

        assert await soon(is_acknowledged)
    finally:
        await asyncio.to_thread(rabbitmq.alarm, False)

    await works(stage, epoch=2, job_id="after")


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


async def test_an_offer_that_nobody_asks_for_goes_back(stage: Stage) -> None:
    """A worker that hangs between an offer and its grant does not keep the job."""
    hanging = await stage.join("w1", slot_wait_s=0.3)
    await hanging.offers(1)
    await stage.offer("j1")
    other = await stage.join("w2")

    assert (await next_job(other)).offer.job_id == "j1"


async def test_what_one_worker_cannot_use_finds_another(stage: Stage) -> None:
    """C26: given back again and again, and each time others go first."""
    without_room, with_room = await stage.join("w1"), await stage.join("w2")
    await without_room.offers(1)
    await stage.offer("j1")
    await (await next_job(without_room)).back()

    assert (await next_job(with_room, within_s=5)).offer.job_id == "j1"
