"""What may follow a job in the commit that settles it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from planrun.core.errors import LedgerUnavailable
from planrun.core.kinds import Kind
from planrun.core.messages import Granted, Lease
from planrun.core.offers import Offer
from planrun.worker.gates import Gates, Reservation
from planrun.worker.taking import Asking, Successor, Taken, Taking

pytestmark = pytest.mark.anyio

EXPORT = Kind(kind="export", version="v1", module="m")


def an_offer(job_id: str, *, kind: str = "export") -> Offer:
    return Offer(job_id=job_id, attempt=1, namespace="default", kind=kind, version="v1", priority=0)


class World:
    """A ledger with a line of offers, and a machine with or without room."""

    def __init__(self, *line: Offer | Exception) -> None:
        self.line = line
        self.asked: list[str] = []
        self.begun: list[str] = []
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

    async def offers(self, count: int) -> list[Offer]:
        if self.is_slow:
            await asyncio.sleep(30)
        for one in self.line:
            if isinstance(one, Exception):
                raise one
        return cast("list[Offer]", list(self.line))

    def asking(self, offers: Sequence[Offer]) -> Asking:
        self.asked = [offer.job_id for offer in offers]
        return Asking(offers, [])

    async def grant(self, asking: Asking) -> Taken | None:
        lease = Lease(job_id=asking.offers[0].job_id, attempt=1, token=1)
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
