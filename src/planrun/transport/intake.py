"""The offers of one lane of a broker: one at a time, and only while there is room.

The acknowledgement is early, so the broker's prefetch does not bound what runs. This does: there is a consumer only
while a job could start, and it is gone *before* the offer that fills the last place is acknowledged. So a busy machine
never holds what an idle one could run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Protocol

from planrun.complaints import Complaints
from planrun.core.errors import TransportUnavailable
from planrun.core.messages import Lease
from planrun.core.offers import Offer

# What was given back shall find others first: in an hour without an answer of the ledger it comes 120 times.
REST_S = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
SLOT_WAIT_S = 60.0


class Held(Protocol):
    """An unacknowledged message. What is said about it over a connection that has gone is not needed: it comes again.

    Raises (every method): nothing.
    """

    @property
    def offer(self) -> Offer: ...

    async def acknowledge(self) -> None: ...

    async def give_back(self) -> None: ...

    async def put_aside(self, why: str) -> bool:
        """Keep it as evidence. False: it could not be kept, so it must not be acknowledged."""
        ...


class Lane(Protocol):
    """A lane over one connection. The broker takes what is said here, and of what it has handed over, in that order."""

    @property
    def is_open(self) -> bool: ...

    async def consume(self, arrived: Callable[[Held], Coroutine[Any, Any, None]]) -> None:
        """From now on offers may arrive, one at a time.

        Raises:
            TransportUnavailable: The lane cannot be consumed.
        """
        ...

    async def stop(self) -> None:
        """Not waited for: what is under way still arrives. Raises as above."""
        ...


class Intake:
    """What one worker takes from one lane. It outlives connections: `connect` gives it the next one."""

    def __init__(self, *, slot_wait_s: float, on_news: Callable[[], None], complaints: Complaints) -> None:
        """
        Args:
            slot_wait_s: How long an offer may be held before it goes back; far below the broker's own patience.
            on_news: Called when asking for offers is worth a try.
        """
        self._slot_wait_s = slot_wait_s
        self._on_news = on_news
        self._complaints = complaints
        self._free = 0
        self._lane: Lane | None = None
        self._is_consuming = False
        self._changing = asyncio.Lock()
        self._offer: BrokerOffer | None = None  # has come, and nobody has asked for it yet
        self._given_back = 0  # in a row
        self._resting: asyncio.TimerHandle | None = None

    async def connect(self, lane: Lane) -> None:
        """Go on here: what was held over another connection is the broker's again.

        Raises:
            TransportUnavailable: The lane cannot be consumed.
        """
        self._lane, self._is_consuming, self._offer = lane, False, None
        await self._consume_as_wanted()

    async def take(self, free: int) -> list[BrokerOffer]:
        """What has come so far."""
        self._free = free
        with suppress(TransportUnavailable):  # whoever keeps the connection finds out, and starts over
            await self._consume_as_wanted()
        offer, self._offer = self._offer, None
        if offer is None or offer.is_over:
            return []
        if free <= 0:
            await offer.return_it()
            return []
        return [offer]

    async def started(self) -> None:
        """One place less."""
        self._given_back = 0
        self._free -= 1
        with suppress(TransportUnavailable):
            await self._consume_as_wanted()

    async def rest(self) -> None:
        """This machine has no use for what comes: let others have it for a while."""
        delay_s = REST_S[min(self._given_back, len(REST_S) - 1)]
        self._given_back += 1
        if self._resting is not None:
            self._resting.cancel()
        self._resting = asyncio.get_running_loop().call_later(delay_s, self._rested)
        with suppress(TransportUnavailable):
            await self._consume_as_wanted()

    def stop(self) -> None:
        if self._resting is not None:
            self._resting.cancel()
        self._free = 0

    def is_strange(self, offer: Offer, why: str) -> None:
        said = f"an offer was put aside: job {offer.job_id} attempt {offer.attempt}: {why}"
        self._complaints.say("strange", said, level=logging.ERROR)

    def _rested(self) -> None:
        self._resting = None
        self._on_news()

    async def _consume_as_wanted(self) -> None:
        async with self._changing:
            lane, wanted = self._lane, self._free > 0 and self._resting is None
            if lane is None or not lane.is_open or wanted == self._is_consuming:
                return
            await (lane.consume(self._arrived) if wanted else lane.stop())
            self._is_consuming = wanted

    async def _arrived(self, held: Held) -> None:
        self._offer = BrokerOffer(held, self, wait_s=self._slot_wait_s)
        if self._free <= 0:
            offer_back, self._offer = self._offer, None
            await offer_back.return_it()
        else:
            self._on_news()


class BrokerOffer:
    """An offer in a worker's hands. Implements `planrun.transport.contract.Delivery`.

    Attributes:
        is_over: It was decided what becomes of it, or it was held for too long.
    """

    def __init__(self, held: Held, intake: Intake, *, wait_s: float) -> None:
        self.offer = held.offer
        self.is_over = False
        self._held = held
        self._intake = intake
        self._late: asyncio.Task[None] | None = None
        self._waiting = asyncio.get_running_loop().call_later(wait_s, self._is_late)

    async def done(self, lease: Lease | None = None) -> None:
        if self._decide():
            if lease is not None:
                await self._intake.started()
            await self._held.acknowledge()

    async def back(self) -> None:
        if self._decide():
            await self._intake.rest()
            await self._held.give_back()

    async def strange(self, why: str) -> None:
        if self._decide():
            self._intake.is_strange(self.offer, why)
            if await self._held.put_aside(why):
                await self._held.acknowledge()
            else:
                await self._intake.rest()
                await self._held.give_back()

    async def return_it(self) -> None:
        """Back, without any fault of this machine: it had room when it asked."""
        if self._decide():
            await self._held.give_back()

    def _decide(self) -> bool:
        was_over, self.is_over = self.is_over, True
        self._waiting.cancel()
        return not was_over

    def _is_late(self) -> None:
        self._late = asyncio.ensure_future(self.back())
