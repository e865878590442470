"""What may follow a job in the commit that settles it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, cast

import pytest

from planrun.core.errors import LedgerUnavailable, LedgerUnusable
from planrun.core.kinds import Kind
from planrun.core.messages import Granted, GrantRequest, Lease, Refused
from planrun.core.offers import Offer
from planrun.ledger.contract import Ledger
from planrun.transport.contract import Delivery, WorkerTransport
from planrun.worker.gates import Gates, Reservation
from planrun.worker.options import WorkerOptions
from planrun.worker.taking import Asking, Successor, Taken, Taking
from tests.contract.manual_clock import ManualClock

pytestmark = pytest.mark.anyio

EXPORT = Kind(kind="export", version="v1", module="m")


def an_offer(job_id: str, *, kind: str = "export") -> Offer:
    return Offer(job_id=job_id, attempt=1, namespace="default", kind=kind, version="v1", priority=0)


class Seen(NamedTuple):
    """An offer that nobody has taken out of line."""

    offer: Offer


class World:
    """A ledger with a line of offers, and a machine with or without room."""

    def __init__(self, *line: Offer | Exception) -> None:
        self.line = line
        self.asked: list[str] = []
        self.begun: list[str] = []
        self.wanted: list[str] = []
        self.may_follow = self.has_room = True
        self.is_slow = False
        self.successor = Successor(
            cast("Taking", self),
            cast("Gates", self),
            kind=EXPORT,
            room=cast("Reservation", None),
            may_follow=lambda: self.may_follow,
            begin=lambda taken: self.begun.append(taken.granted.lease.job_id),
        )

    async def glance(self) -> list[Delivery]:
        if self.is_slow:
            await asyncio.sleep(30)
        for one in self.line:
            if isinstance(one, Exception):
                raise one
        return [cast("Delivery", Seen(one)) for one in self.line if isinstance(one, Offer)]

    def unwanted(self, deliveries: Iterable[Delivery]) -> list[Delivery]:
        return [delivery for delivery in deliveries if delivery.offer.job_id not in self.wanted]

    def asking(self, deliveries: Sequence[Delivery]) -> Asking:
        self.asked = [delivery.offer.job_id for delivery in deliveries]
        return Asking(deliveries, [], 0)

    async def grant(self, asking: Asking) -> Taken | None:
        lease = Lease(job_id=asking.deliveries[0].offer.job_id, attempt=1, token=1)
        return Taken(Granted(lease=lease, namespace="default", kind="export", version="v1"), asked_ms=0)

    def still_admit(self, *_: Any) -> bool:
        return self.has_room

    async def follow(self) -> bool:
        self.successor.look()
        await self.successor.looked()
        self.successor.take()
        return await self.successor.has_come()


async def test_the_next_job_of_the_kind_follows_and_is_begun() -> None:
    world = World(an_offer("first"), an_offer("second"))

    assert await world.follow()
    assert (world.asked, world.begun) == (["first", "second"], ["first"])


async def test_a_more_urgent_job_of_another_kind_is_not_overtaken() -> None:
    world = World(an_offer("urgent", kind="other"), an_offer("alike"))

    assert not await world.follow()
    assert (world.asked, world.begun) == ([], [])


async def test_behind_a_job_of_another_kind_nothing_is_asked_for() -> None:
    world = World(an_offer("first"), an_offer("other", kind="other"), an_offer("behind"))

    assert await world.follow()
    assert world.asked == ["first"]


async def test_what_another_slot_asks_for_is_left_to_it() -> None:
    world = World(an_offer("wanted"), an_offer("next"))
    world.wanted = ["wanted"]

    assert await world.follow()
    assert world.asked == ["next"]


async def test_where_other_slots_ask_for_all_there_is_nothing_is_asked_for() -> None:
    world = World(an_offer("wanted"))
    world.wanted = ["wanted"]

    assert not await world.follow()


@pytest.mark.parametrize("closed", ["may_follow", "has_room"])
async def test_nothing_follows_where_the_worker_drains_or_there_is_no_room(closed: str) -> None:
    world = World(an_offer("first"))
    setattr(world, closed, False)

    assert not await world.follow()
    assert world.begun == []


async def test_a_ledger_that_cannot_be_read_is_no_error_of_the_job_before() -> None:
    world = World(LedgerUnavailable("locked"))

    assert not await world.follow()


async def test_a_look_that_takes_long_holds_no_settle_up() -> None:
    world = World(an_offer("first"))
    world.is_slow = True

    assert not await world.follow()
    assert world.begun == []


async def test_nothing_was_looked_for_so_nothing_follows() -> None:
    world = World(an_offer("first"))
    world.successor.take()

    assert not await world.successor.has_come()


class Told:
    """An offer that notes what it is told."""

    def __init__(self, job_id: str) -> None:
        self.offer = an_offer(job_id)
        self.said: list[str] = []

    async def done(self, lease: Lease | None = None) -> None:
        self.said.append("done" if lease is None else f"granted {lease.token}")

    async def back(self) -> None:
        self.said.append("back")

    async def strange(self, why: str) -> None:
        self.said.append("strange")


class Answering:
    """A ledger that gives these answers, one after the other."""

    def __init__(self, *answers: Granted | Refused | Exception) -> None:
        self.answers = list(answers)
        self.nonces: list[str] = []

    async def grant_first(self, requests: Sequence[GrantRequest]) -> Granted | Refused:
        self.nonces.append(requests[0].nonce)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def taking_from(ledger: Answering) -> Taking:
    none = cast("WorkerTransport", None)
    return Taking(cast("Ledger", ledger), none, ManualClock(), WorkerOptions(modules=()), "w1")


GRANTED = Granted(
    lease=Lease(job_id="b", attempt=1, token=5), namespace="default", kind="export", version="v1", inputs={}
)


@pytest.mark.parametrize(
    ("why", "said"),
    [
        *((why, "done") for why in ("running", "stale", "ended", "not-due", "paused")),
        *((why, "strange") for why in ("unknown", "ahead")),
        ("not-ready", "back"),
    ],
)
async def test_what_becomes_of_an_offer_that_is_refused(why: str, said: str) -> None:
    taking, offer = taking_from(Answering(Refused(why=why))), Told("a")

    assert await taking.grant(taking.asking([offer])) is None
    assert offer.said == [said]


async def test_of_several_offers_one_is_granted_and_the_others_stay_in_line() -> None:
    taking, offers = taking_from(Answering(GRANTED)), [Told("a"), Told("b"), Told("c")]

    taken = await taking.grant(taking.asking(offers))

    assert taken is not None
    assert [offer.said for offer in offers] == [["back"], ["granted 5"], ["back"]]


@pytest.mark.parametrize("answer", [GRANTED, Refused(why="running"), LedgerUnusable("gone")])
async def test_an_offer_is_wanted_by_one_slot_until_its_question_is_answered(
    answer: Granted | Refused | Exception,
) -> None:
    taking, offers = taking_from(Answering(answer)), [Told("a"), Told("b")]
    asking = taking.asking(offers)

    assert taking.unwanted(offers) == offers[1:]
    with suppress(LedgerUnusable):
        await taking.grant(asking)
    assert taking.unwanted(offers) == offers


async def test_an_unanswered_grant_is_asked_for_again_and_then_the_offer_goes_back() -> None:
    gone = LedgerUnavailable("gone")
    taking, offer = taking_from(Answering(gone, gone, GRANTED)), Told("b")
    assert await taking.grant(taking.asking([offer])) is not None

    taking, offer = taking_from(Answering(gone, gone, gone)), Told("b")
    with pytest.raises(LedgerUnavailable):
        await taking.grant(taking.asking([offer]))
    assert offer.said == ["back"]


class Line:
    """A transport that hands out these offers at each look."""

    def __init__(self, *offers: Told) -> None:
        self.line = offers

    async def offers(self, _: int) -> list[Told]:
        return list(self.line)


@pytest.mark.parametrize("comes_again", [True, False])
async def test_a_grant_whose_reply_got_lost_is_asked_for_by_the_same_name_while_its_lease_may_run(
    comes_again: bool,
) -> None:
    gone = LedgerUnavailable("gone")
    ledger, clock, line = Answering(gone, gone, gone, GRANTED), ManualClock(), Line()
    taking = Taking(cast("Ledger", ledger), cast("WorkerTransport", line), clock, WorkerOptions(modules=()), "w1")
    asked_ms = clock.boot_ms()
    with pytest.raises(LedgerUnavailable):
        await taking.grant(taking.asking([Told("b")]))
    clock.advance(7)
    if comes_again:
        line.line = (Told("b"),)

    [offer] = await taking.offers(1)
    taken = await taking.grant(taking.asking([offer]))

    assert taken == Taken(GRANTED, asked_ms)
    assert len(set(ledger.nonces)) == 1
    assert await taking.offers(1) == list(line.line)


async def test_an_unanswered_grant_is_asked_for_again_by_one_slot_at_a_time() -> None:
    """Two that ask by one name get one token, and the attempt runs twice in one folder."""
    gone = LedgerUnavailable("gone")
    ledger, line = Answering(gone, gone, gone, Refused(why="running"), GRANTED), Line(Told("b"))
    taking = Taking(
        cast("Ledger", ledger), cast("WorkerTransport", line), ManualClock(), WorkerOptions(modules=()), "w1"
    )
    with pytest.raises(LedgerUnavailable):
        await taking.grant(taking.asking([Told("b")]))

    of_a_slot_that_settles = taking.asking([Told("b")])
    for offer in await taking.offers(1):
        assert await taking.grant(taking.asking([offer])) is None
    assert await taking.grant(of_a_slot_that_settles) is not None

    assert ledger.nonces[3] != ledger.nonces[4] == ledger.nonces[0]


async def test_a_lease_that_nobody_can_have_any_more_is_not_asked_for_again() -> None:
    gone, clock = LedgerUnavailable("gone"), ManualClock()
    taking = Taking(
        cast("Ledger", Answering(gone, gone, gone)),
        cast("WorkerTransport", Line()),
        clock,
        WorkerOptions(modules=(), lease_s=60),
        "w1",
    )
    with pytest.raises(LedgerUnavailable):
        await taking.grant(taking.asking([Told("b")]))

    clock.advance(61)

    assert await taking.offers(1) == []


async def test_an_offer_of_what_has_just_ended_here_is_dropped_without_a_question_and_later_is_not() -> None:
    """Later it is another job of that name: a ledger was restored, and the job submitted again."""
    again, other, clock = Told("b"), Told("c"), ManualClock()
    line = cast("WorkerTransport", Line(again, other))
    taking = Taking(cast("Ledger", None), line, clock, WorkerOptions(modules=()), "w1")
    taking.remember(GRANTED.lease)

    assert await taking.offers(2) == [other]
    assert (again.said, other.said) == (["done"], [])

    clock.advance(31)
    assert await taking.offers(2) == [again, other]
