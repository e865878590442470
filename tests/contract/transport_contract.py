"""What a worker may expect of every transport.

A backend gives a `Fleet`: the ledger with its client, and whatever carries offers and words from there to a worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import pytest

from planrun.core.drains import DrainRequest
from planrun.core.flows import Notice
from planrun.core.messages import Beat, Lease, RenewRequest
from planrun.core.offers import Offer
from planrun.transport.contract import Delivery, WorkerTransport

from .actors import LEASE_MS, Actors

T = TypeVar("T")

SOON_S = 20.0


class Fleet:
    """What stands on the other side of a worker's transport."""

    def __init__(self, they: Actors) -> None:
        self.they = they

    async def join(self, incarnation: str) -> WorkerTransport:
        """The end of one worker. All of them can run the same."""
        raise NotImplementedError

    async def pass_on(self, offer: Offer) -> None:
        """A job waits: carry that to the workers."""
        raise NotImplementedError

    async def tell(self, incarnation: str, notice: Notice) -> None:
        """The ledger says something about a worker: carry that to it."""
        raise NotImplementedError

    async def take_beats_in(self) -> None:
        """Carry heartbeats that have arrived into the ledger."""
        raise NotImplementedError

    # --- in one line each ---

    async def offer(self, **given: Any) -> Offer:
        """A client submits a job, and it is offered."""
        job_id = (await self.they.submit(**given)).job_id
        [offer] = [offer for offer in await self.they.offers() if offer.job_id == job_id]
        await self.pass_on(offer)
        return offer

    async def cancel(self, lease: Lease, *, by: str = "w1") -> None:
        await self.they.cancel(lease.job_id)
        [standing] = await self.they.ledger.renew(a_beat(lease, by=by))
        await self.tell(by, Notice(lease=lease, standing=standing))

    async def drain(self, incarnation: str, *, undo: bool = False) -> None:
        request = DrainRequest(incarnations=(incarnation,), who="ann", why="")
        await (self.they.ledger.undrain(request) if undo else self.they.ledger.drain(request))
        await self.tell(incarnation, Notice(drained=not undo))


def a_beat(*leases: Lease, by: str = "w1") -> RenewRequest:
    return RenewRequest(incarnation=by, beats=tuple(Beat(lease=lease) for lease in leases), lease_ms=LEASE_MS)


async def soon(look: Callable[[], Awaitable[T]]) -> T:
    """Look until there is something."""
    async with asyncio.timeout(SOON_S):
        while True:
            if seen := await look():
                return seen
            await asyncio.sleep(0.01)


async def next_of(worker: WorkerTransport, free: int = 1) -> Delivery:
    """The first offer that such a worker gets."""
    return (await soon(lambda: worker.offers(free)))[0]


@pytest.mark.anyio
class TransportContract:
    @pytest.fixture
    async def fleet(self, they: Actors) -> AsyncIterator[Fleet]:
        raise NotImplementedError("each backend brings its own fleet")
        yield  # pragma: no cover

    @pytest.fixture
    async def worker(self, fleet: Fleet) -> AsyncIterator[WorkerTransport]:
        await fleet.they.register("w1")
        transport = await fleet.join("w1")
        yield transport
        await transport.close()

    async def test_what_waits_is_offered(self, fleet: Fleet, worker: WorkerTransport) -> None:
        offer = await fleet.offer()

        assert (await next_of(worker)).offer == offer

    async def test_where_nothing_waits_nothing_is_offered(self, worker: WorkerTransport) -> None:
        assert list(await worker.offers(1)) == []

    async def test_a_new_offer_wakes_whoever_has_room(self, fleet: Fleet, worker: WorkerTransport) -> None:
        await worker.offers(1)
        await worker.changed(timeout_s=0.1)
        offer = await fleet.offer()

        async with asyncio.timeout(SOON_S):
            while not (seen := await worker.offers(1)):
                await worker.changed(timeout_s=SOON_S)

        assert seen[0].offer == offer

    async def test_a_worker_without_room_is_offered_nothing_and_holds_nothing(
        self, fleet: Fleet, worker: WorkerTransport
    ) -> None:
        """C26: what waits behind a busy worker is had by one that is free."""
        await worker.offers(1)
        await worker.offers(0)
        offer = await fleet.offer()

        assert list(await worker.offers(0)) == []
        other = await fleet.join("w2")
        assert (await next_of(other)).offer == offer
        await other.close()

    async def test_an_offer_that_came_before_the_room_went_is_held_by_nobody(
        self, fleet: Fleet, worker: WorkerTransport
    ) -> None:
        await worker.offers(1)
        offer = await fleet.offer()
        await worker.changed(timeout_s=1)
        await worker.offers(0)

        other = await fleet.join("w2")
        assert (await next_of(other)).offer == offer
        await other.close()

    async def test_an_offer_that_is_given_back_comes_again(self, fleet: Fleet, worker: WorkerTransport) -> None:
        offer = await fleet.offer()
        await (await next_of(worker)).back()

        assert (await next_of(worker)).offer == offer

    async def test_a_granted_offer_does_not_come_again(self, fleet: Fleet, worker: WorkerTransport) -> None:
        first = await fleet.offer()
        delivery = await next_of(worker)
        await delivery.done(await fleet.they.grant(first.job_id))
        second = await fleet.offer()

        assert (await next_of(worker)).offer == second

    async def test_a_worker_that_goes_gives_back_what_it_holds(self, fleet: Fleet) -> None:
        offer = await fleet.offer()
        leaving = await fleet.join("w1")
        await next_of(leaving)
        await leaving.close()

        staying = await fleet.join("w2")
        assert (await next_of(staying)).offer == offer
        await staying.close()

    async def test_what_is_seen_at_a_glance_is_still_everybodys(self, fleet: Fleet, worker: WorkerTransport) -> None:
        offer = await fleet.offer()
        await worker.glance()

        other = await fleet.join("w2")
        assert (await next_of(other)).offer == offer
        await other.close()

    async def test_a_heartbeat_renews_leases(self, fleet: Fleet, worker: WorkerTransport) -> None:
        lease = await fleet.they.running()
        fleet.they.clock.advance(10)
        before = (await fleet.they.row(lease.job_id)).lease_until_ms

        standings = await worker.beat(a_beat(lease))
        await fleet.take_beats_in()

        assert standings is None or [standing.status for standing in standings] == ["held"]
        after = (await fleet.they.row(lease.job_id)).lease_until_ms
        assert before is not None
        assert after == before + 10_000

    async def test_progress_rides_along(self, fleet: Fleet, worker: WorkerTransport) -> None:
        lease = await fleet.they.running()
        beat = Beat(lease=lease, fraction=0.5, message="half of it \N{SNOWMAN}")

        await worker.beat(RenewRequest(incarnation="w1", beats=(beat,), lease_ms=LEASE_MS))
        await fleet.take_beats_in()

        row = await fleet.they.row(lease.job_id)
        assert (row.fraction, row.message) == (0.5, "half of it \N{SNOWMAN}")

    async def test_a_worker_hears_that_a_lease_has_ended(self, fleet: Fleet, worker: WorkerTransport) -> None:
        kept, lease = await fleet.they.running(), await fleet.they.running()
        await worker.changed(timeout_s=0.1)
        await fleet.cancel(lease)

        notice = await soon_about_a_lease(worker, kept, lease)

        assert notice.lease == lease
        assert notice.standing is None or notice.standing.status == "canceled"

    async def test_a_worker_hears_that_it_is_drained_and_that_this_was_undone(
        self, fleet: Fleet, worker: WorkerTransport
    ) -> None:
        for undo in (False, True):
            await fleet.drain("w1", undo=undo)
            async with asyncio.timeout(SOON_S):
                while Notice(drained=not undo) not in await worker.notices([]):
                    await worker.changed(timeout_s=0.1)

    async def test_what_was_heard_is_not_said_again(self, fleet: Fleet, worker: WorkerTransport) -> None:
        await fleet.drain("w1")
        async with asyncio.timeout(SOON_S):
            while Notice(drained=True) not in await worker.notices([]):
                await worker.changed(timeout_s=0.1)

        assert list(await worker.notices([])) == []


async def soon_about_a_lease(worker: WorkerTransport, *leases: Lease) -> Notice:
    async def look() -> list[Notice]:
        return [notice for notice in await worker.notices(leases) if notice.lease is not None]

    return (await soon(look))[0]
