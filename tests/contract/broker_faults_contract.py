"""Of every broker that breaks: both ends come back by themselves, and nothing that matters was in it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from planrun.core.errors import LedgerUnavailable, TransportUnavailable
from planrun.core.flows import Marker, Notice
from planrun.core.messages import Lease, RenewRequest, Standing
from planrun.transport.contract import Delivery, FleetTransport, WorkerTransport

from .fleet_transport_contract import LANE, an_offer, some
from .transport_contract import a_beat, soon

LEASE = Lease(job_id="j1", attempt=1, token=1)
BEAT = a_beat(LEASE)
HELD = [Standing(status="held")]


class Answering:
    """A ledger that the worker can reach beside the broker, or cannot."""

    def __init__(self) -> None:
        self.is_there = True

    async def renew(self, request: RenewRequest) -> Sequence[Standing]:
        if not self.is_there:
            raise LedgerUnavailable("no orchestrator")
        return [Standing(status="held") for _ in request.beats]


class Frail:
    """Both ends of one fleet, and a broker that a test can break.

    Attributes:
        ledger: What the workers ask beside the broker.
    """

    def __init__(self, fleet: FleetTransport) -> None:
        self.fleet = fleet
        self.ledger = Answering()
        self.workers: list[WorkerTransport] = []

    def open_worker(self, incarnation: str, **given: Any) -> WorkerTransport:
        raise NotImplementedError

    async def die(self) -> None:
        """Every process of the broker ends on the spot."""
        raise NotImplementedError

    async def stop(self) -> None:
        """It ends in peace."""
        raise NotImplementedError

    async def start(self) -> None:
        """It is there again, with what it had confirmed."""
        raise NotImplementedError

    async def wipe(self) -> None:
        """All that it had is lost; it is not there."""
        raise NotImplementedError

    async def lose_beats(self) -> None:
        """Nothing takes heartbeats any more."""
        raise NotImplementedError

    def alarm(self) -> AbstractAsyncContextManager[None]:
        """It is short of memory, and reads nothing from whoever publishes."""
        raise NotImplementedError

    async def lying(self) -> int:
        """Offers in the lane, and in the hands of workers that have not acknowledged them."""
        raise NotImplementedError

    # --- in one line each ---

    async def join(self, incarnation: str = "w1", **given: Any) -> WorkerTransport:
        """A worker's end, connected unless the broker is down."""
        worker = self.open_worker(incarnation, **given)
        self.workers.append(worker)
        await worker.changed(timeout_s=2)
        return worker

    async def offer(self, job_id: str) -> None:
        """As the dispatcher does it: until it is confirmed."""

        async def send() -> bool:
            try:
                await self.fleet.send_offer(LANE, an_offer(job_id))
            except TransportUnavailable:
                return False
            return True

        await soon(send)

    async def epoch(self, number: int) -> None:
        async def begin() -> bool:
            try:
                await self.fleet.begin_epoch(number)
            except TransportUnavailable:
                return False
            return True

        await soon(begin)

    async def close(self) -> None:
        for worker in self.workers:
            await worker.close()
        await self.fleet.close()


async def next_job(worker: WorkerTransport, within_s: float = 40) -> Delivery:
    """Waits like a supervisor: woken, or every now and then."""
    async with asyncio.timeout(within_s):
        while not (offers := await worker.offers(1)):
            await worker.changed(timeout_s=1)
        return offers[0]


async def works(frail: Frail, *, epoch: int, job_id: str) -> None:
    """Offers, heartbeats, markers and words get through; at most half a minute after whatever happened (C21)."""
    [worker] = frail.workers
    await frail.epoch(epoch)
    await frail.offer(job_id)
    async with asyncio.timeout(40):
        while (delivery := await next_job(worker)).offer.job_id != job_id:
            await delivery.done()
    await delivery.done()

    async def beat() -> bool:
        return await worker.beat(BEAT) is None

    await soon(beat)
    await frail.fleet.mark(Marker(stamp_ms=epoch, nonce="n"))
    assert (await some(frail.fleet, 2))[-1] == Marker(stamp_ms=epoch, nonce="n")

    async def hear() -> bool:
        await frail.fleet.tell("w1", Notice(drained=True))
        return Notice(drained=True) in await worker.notices([])

    await soon(hear)


async def outlive_a_kill(stages: Sequence[Frail]) -> None:
    """C21, and the broker killed under load: offers it has confirmed come after its restart. All are on one broker."""
    for stage in stages:
        worker = await stage.join()
        await works(stage, epoch=1, job_id="before")
        await worker.offers(0)
        await stage.offer("kept")

    await stages[0].die()
    try:
        for stage in stages:
            await is_cut_off(stage)
    finally:
        await stages[0].start()

    for stage in stages:
        delivery = await next_job(stage.workers[0])
        assert delivery.offer.job_id == "kept"
        await delivery.done()
        await works(stage, epoch=2, job_id="after")
        assert stage.fleet.breaks == 1


async def is_cut_off(stage: Frail) -> None:
    """Nothing is offered, nothing counts as sent, and heartbeats go to the ledger."""
    [worker] = stage.workers
    with pytest.raises(TransportUnavailable):
        await stage.fleet.send_offer(LANE, an_offer("lost"))
    assert await worker.beat(BEAT) == HELD
    stage.ledger.is_there = False
    with pytest.raises(LedgerUnavailable):
        await worker.beat(BEAT)
    assert list(await worker.offers(1)) == []


@pytest.mark.anyio
class BrokerFaultsContract:
    """Each broker brings a fixture `stage`."""

    @pytest.mark.timeout(180)
    async def test_a_broker_that_forgot_everything_and_one_that_was_not_there_yet(self, stage: Frail) -> None:
        """C21, and the broker's data deleted: what was offered is offered again by whoever owns the ledger."""
        await stage.stop()
        try:
            worker = await stage.join()
            assert list(await worker.offers(1)) == []
        finally:
            await stage.start()
        await works(stage, epoch=1, job_id="first")

        await stage.wipe()
        await stage.start()

        await works(stage, epoch=2, job_id="second")

    async def test_where_nothing_takes_heartbeats_they_go_to_the_ledger(self, stage: Frail) -> None:
        """C14 of the protocol: what the broker took and threw away has not arrived."""
        worker = await stage.join()
        assert await worker.beat(BEAT) == HELD

        await stage.epoch(1)
        assert await worker.beat(BEAT) is None

        await stage.lose_beats()
        assert await worker.beat(BEAT) == HELD

        async def is_noticed() -> bool:
            return stage.fleet.breaks == 1

        await soon(is_noticed)
        with pytest.raises(TransportUnavailable, match="new epoch"):
            await stage.fleet.mark(Marker(stamp_ms=1, nonce="n"))
        assert stage.fleet.breaks == 2, "a way on which markers get lost is not whole"

    async def test_a_break_that_nobody_has_seen_is_shown_again(self, stage: Frail) -> None:
        """It may happen just as a new epoch has begun: whoever looked then would wait for heartbeats for ever."""
        await stage.epoch(1)
        await stage.lose_beats()

        async def is_noticed() -> bool:
            return stage.fleet.breaks == 1

        await soon(is_noticed)
        assert list(await stage.fleet.beats(timeout_s=0.01)) == []
        assert stage.fleet.breaks == 2

    async def test_while_the_broker_is_short_of_memory_acknowledgements_and_heartbeats_get_through(
        self, stage: Frail
    ) -> None:
        worker = await stage.join()
        await works(stage, epoch=1, job_id="before")
        await stage.offer("j1")
        delivery = await next_job(worker)
        async with stage.alarm():
            assert await worker.beat(BEAT) == HELD  # by the ledger: the broker reads from nobody who publishes
            with pytest.raises(TransportUnavailable):
                await stage.fleet.send_offer(LANE, an_offer("later"))
            await delivery.done(LEASE)

            async def is_acknowledged() -> bool:
                return await stage.lying() == 0

            assert await soon(is_acknowledged)

        await works(stage, epoch=2, job_id="after")

    async def test_an_offer_that_nobody_asks_for_goes_back(self, stage: Frail) -> None:
        """A worker that hangs between an offer and its grant does not keep the job."""
        hanging = await stage.join("w1", slot_wait_s=0.3)
        await hanging.offers(1)
        await stage.offer("j1")
        other = await stage.join("w2")

        assert (await next_job(other)).offer.job_id == "j1"

    async def test_what_one_worker_cannot_use_finds_another(self, stage: Frail) -> None:
        """C26: given back again and again, and each time others go first."""
        without_room, with_room = await stage.join("w1"), await stage.join("w2")
        await without_room.offers(1)
        await stage.offer("j1")
        await (await next_job(without_room)).back()

        assert (await next_job(with_room, within_s=5)).offer.job_id == "j1"
