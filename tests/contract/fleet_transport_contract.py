"""What an orchestrator may expect of every transport that has a broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from planrun.core.errors import Unroutable
from planrun.core.flows import Marker, Notice, lane_of
from planrun.core.messages import Lease, Message, RenewRequest, Standing
from planrun.core.offers import Offer
from planrun.transport.contract import FleetTransport, WorkerTransport

from .actors import Actors, a_worker
from .transport_contract import Fleet, a_beat, next_of, soon, soon_about_a_lease

LANE = "lane-a"
LANE_OF_ALL = lane_of(a_worker("w1"))
Join = Callable[[str, str], Awaitable[WorkerTransport]]


class Brokered(Fleet):
    """The orchestrator's half in short: what arrives goes into the ledger."""

    def __init__(self, they: Actors, transport: FleetTransport) -> None:
        super().__init__(they)
        self.transport = transport

    async def pass_on(self, offer: Offer) -> None:
        await self.transport.send_offer(LANE_OF_ALL, offer)

    async def tell(self, incarnation: str, notice: Notice) -> None:
        await self.transport.tell(incarnation, notice)

    async def take_beats_in(self) -> None:
        for message in await self.transport.beats(timeout_s=10):
            if isinstance(message, RenewRequest):
                await self.they.ledger.renew(message)


class Inbox:
    """An application's own queue."""

    address: str

    async def create(self) -> None: ...

    async def received(self) -> list[tuple[str, str]]:
        """Id and body of what has come, and take it out."""
        raise NotImplementedError


def an_offer(job_id: str = "j1", *, attempt: int = 1) -> Offer:
    return Offer(job_id=job_id, attempt=attempt, namespace="default", kind="preview", version="v1")


def a_lease(token: int) -> Lease:
    return Lease(job_id=f"j{token}", attempt=1, token=token)


async def some(transport: FleetTransport, count: int) -> list[RenewRequest | Marker]:
    """The next heartbeats and markers, so many."""
    seen: list[RenewRequest | Marker] = []
    async with asyncio.timeout(20):
        while len(seen) < count:
            seen += await transport.beats(timeout_s=1)
    return seen


@pytest.mark.anyio
class FleetTransportContract:
    @pytest.fixture
    async def transport(self) -> AsyncIterator[FleetTransport]:
        raise NotImplementedError("each backend opens its own")
        yield  # pragma: no cover

    @pytest.fixture
    async def join(self) -> AsyncIterator[Join]:
        """Opens the end of a worker: its incarnation, its lane."""
        raise NotImplementedError("each backend opens its own")
        yield  # pragma: no cover

    @pytest.fixture
    async def inbox(self) -> AsyncIterator[Inbox]:
        raise NotImplementedError("each backend has its own")
        yield  # pragma: no cover

    # --- offers ---

    async def test_an_offer_waits_in_its_lane_until_somebody_comes(self, transport: FleetTransport, join: Join) -> None:
        """C23: a lane that nobody has used yet swallows nothing."""
        assert await transport.waiting(LANE) == 0
        await transport.send_offer(LANE, an_offer())

        async def waits() -> bool:
            return await transport.waiting(LANE) == 1

        assert await soon(waits)
        assert (await next_of(await join("w1", LANE))).offer == an_offer()

    async def test_lanes_are_apart(self, transport: FleetTransport, join: Join) -> None:
        await transport.send_offer("lane-b", an_offer("other"))
        await transport.send_offer(LANE, an_offer("own"))

        delivery = await next_of(await join("w1", LANE), free=2)
        assert delivery.offer.job_id == "own"

    async def test_offers_of_a_lane_come_in_the_order_in_which_they_were_sent(
        self, transport: FleetTransport, join: Join
    ) -> None:
        for n in range(5):
            await transport.send_offer(LANE, an_offer(f"j{n}"))
        worker = await join("w1", LANE)

        seen = []
        for _ in range(5):
            delivery = await next_of(worker)
            seen.append(delivery.offer.job_id)
            await delivery.done()

        assert seen == [f"j{n}" for n in range(5)]

    async def test_an_offer_that_was_sent_twice_comes_twice(self, transport: FleetTransport, join: Join) -> None:
        """At least once: the ledger refuses the second grant."""
        await transport.send_offer(LANE, an_offer())
        await transport.send_offer(LANE, an_offer())
        worker = await join("w1", LANE)

        await (await next_of(worker)).done()
        assert (await next_of(worker)).offer == an_offer()

    async def test_a_worker_whose_last_place_is_taken_leaves_the_next_offer_to_others(
        self, transport: FleetTransport, join: Join
    ) -> None:
        """C26: nothing lies in the buffer of a busy worker."""
        await transport.send_offer(LANE, an_offer("j1"))
        await transport.send_offer(LANE, an_offer("j2"))
        busy, idle = await join("w1", LANE), await join("w2", LANE)

        first = await next_of(busy)
        await first.done(Lease(job_id=first.offer.job_id, attempt=1, token=1))

        assert (await next_of(idle)).offer.job_id == "j2"

    async def test_an_offer_that_the_ledger_does_not_know_is_kept_and_not_offered_again(
        self, transport: FleetTransport, join: Join
    ) -> None:
        await transport.send_offer(LANE, an_offer("strange"))
        await transport.send_offer(LANE, an_offer("next"))
        worker = await join("w1", LANE)

        await (await next_of(worker)).strange("the ledger says unknown")

        async def is_kept() -> bool:
            return await transport.orphans() == 1

        assert await soon(is_kept)
        assert (await next_of(worker)).offer.job_id == "next"

    async def test_what_is_said_twice_of_an_offer_counts_once(self, transport: FleetTransport, join: Join) -> None:
        await transport.send_offer(LANE, an_offer())
        worker = await join("w1", LANE)
        delivery = await next_of(worker)

        await delivery.done()
        await delivery.back()
        await transport.send_offer(LANE, an_offer("next"))

        assert (await next_of(worker)).offer.job_id == "next"

    # --- heartbeats ---

    async def test_heartbeats_come_in_the_order_in_which_they_were_sent(
        self, transport: FleetTransport, join: Join
    ) -> None:
        await transport.begin_epoch(1)
        worker = await join("w1", LANE)
        sent = [a_beat(a_lease(n)) for n in range(20)]
        for beat in sent:
            assert await worker.beat(beat) is None

        assert await some(transport, 20) == sent

    async def test_a_marker_comes_behind_every_heartbeat_that_has_arrived(
        self, transport: FleetTransport, join: Join
    ) -> None:
        await transport.begin_epoch(1)
        one, other = await join("w1", LANE), await join("w2", LANE)
        marker = Marker(stamp_ms=7, nonce="n")
        before = [a_beat(a_lease(1), by="w1"), a_beat(a_lease(2), by="w2")]
        await one.beat(before[0])
        await other.beat(before[1])
        await transport.mark(marker)
        await one.beat(after := a_beat(a_lease(3), by="w1"))

        assert await some(transport, 4) == [*before, marker, after]

    async def test_without_heartbeats_it_is_empty_at_the_timeout(self, transport: FleetTransport) -> None:
        await transport.begin_epoch(1)

        assert list(await transport.beats(timeout_s=0.05)) == []

    async def test_a_new_epoch_begins_without_what_lay_in_the_old_one(
        self, transport: FleetTransport, join: Join
    ) -> None:
        await transport.begin_epoch(1)
        worker = await join("w1", LANE)
        await worker.beat(a_beat(a_lease(1)))
        await transport.begin_epoch(2)
        await worker.beat(fresh := a_beat(a_lease(2)))

        assert await some(transport, 1) == [fresh]
        assert transport.breaks == 0

    async def test_after_a_new_epoch_nothing_of_the_old_one_comes_late(
        self, transport: FleetTransport, join: Join
    ) -> None:
        """What was handed out and not acknowledged belongs to the old epoch, too."""
        await transport.begin_epoch(1)
        worker = await join("w1", LANE)
        await worker.beat(a_beat(a_lease(1)))
        await some(transport, 1)
        await transport.begin_epoch(2)

        assert list(await transport.beats(timeout_s=0.2)) == []

    # --- control ---

    async def test_a_word_reaches_the_worker_that_it_is_for(self, transport: FleetTransport, join: Join) -> None:
        one, other = await join("w1", LANE), await join("w2", LANE)
        notice = Notice(lease=a_lease(1), standing=Standing(status="canceled", why="by ann"))

        await transport.tell("w1", notice)

        assert await soon_about_a_lease(one, a_lease(1)) == notice
        assert list(await other.notices([a_lease(1)])) == []

    async def test_a_word_to_a_worker_that_has_gone_is_lost_quietly(self, transport: FleetTransport) -> None:
        await transport.tell("nobody", Notice(drained=True))

    async def test_a_word_about_a_lease_that_it_does_not_hold_is_no_news(
        self, transport: FleetTransport, join: Join
    ) -> None:
        worker = await join("w1", LANE)
        await transport.tell("w1", Notice(lease=a_lease(1), standing=Standing(status="lost")))
        await transport.tell("w1", Notice(drained=True))

        async def look() -> list[Notice]:
            return list(await worker.notices([a_lease(2)]))

        assert await soon(look) == [Notice(drained=True)]

    # --- outlet ---

    async def test_an_answer_lies_in_the_applications_queue_byte_for_byte(
        self, transport: FleetTransport, inbox: Inbox
    ) -> None:
        await inbox.create()
        body = '{"job_id":"j1","value":"\\u2603 \N{SNOWMAN}"}'

        for tries in (0, 1):  # a repetition has the same id
            await transport.deliver(inbox.address, Message(msg_id="result:j1:x", route="x", body=body, tries=tries))

        assert await inbox.received() == [("result:j1:x", body)] * 2

    async def test_an_answer_without_a_queue_is_still_owed(self, transport: FleetTransport, inbox: Inbox) -> None:
        """C23: a broker confirms what it throws away; that is no delivery."""
        message = Message(msg_id="result:j1:x", route="x", body="{}", tries=0)
        with pytest.raises(Unroutable, match="no queue"):
            await transport.deliver(inbox.address, message)

        await inbox.create()
        await transport.deliver(inbox.address, message)

        assert await inbox.received() == [("result:j1:x", "{}")]
