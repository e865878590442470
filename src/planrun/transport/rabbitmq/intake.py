"""The offers of one lane: one at a time, and only while there is room.

The acknowledgement is early, so the broker's prefetch does not bound what runs. This does: there is a consumer only
while a job could start, and it is gone *before* the offer that fills the last place is acknowledged. So a busy machine
never holds what an idle one could run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from aiormq import Channel, spec
from aiormq.abc import DeliveredMessage

from planrun.complaints import Complaints
from planrun.core.errors import TransportUnavailable
from planrun.core.messages import Lease
from planrun.core.offers import Offer
from planrun.transport.rabbitmq.link import asking
from planrun.transport.rabbitmq.wire import Unreadable, read

# What was given back shall find others first: in an hour without an answer of the ledger it comes 120 times.
REST_S = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class Intake:
    """What one worker takes from one lane. It outlives channels: `connect` gives it the next one."""

    def __init__(
        self,
        queue: str,
        *,
        slot_wait_s: float,
        put_aside: Callable[[DeliveredMessage, str], Awaitable[bool]],
        on_news: Callable[[], None],
        complaints: Complaints,
    ) -> None:
        """
        Args:
            slot_wait_s: How long an offer may be held before it goes back.
            put_aside: Keeps a message as evidence, byte for byte; False: it could not.
            on_news: Called when asking for offers is worth a try.
        """
        self._queue = queue
        self._slot_wait_s = slot_wait_s
        self._put_aside = put_aside
        self._on_news = on_news
        self._complaints = complaints
        self._free = 0
        self._channel: Channel | None = None
        self._consumer: str | None = None
        self._changing = asyncio.Lock()
        self._offer: BrokerOffer | None = None  # has come, and nobody has asked for it yet
        self._given_back = 0  # in a row
        self._resting: asyncio.TimerHandle | None = None

    async def connect(self, channel: Channel) -> None:
        """Go on here: what was held over another channel is the broker's again.

        Raises:
            TransportUnavailable: The lane cannot be consumed.
        """
        self._channel, self._consumer, self._offer = channel, None, None
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

    async def put_aside(self, message: DeliveredMessage, offer: Offer, why: str) -> bool:
        said = f"an offer was put aside: job {offer.job_id} attempt {offer.attempt}: {why}"
        self._complaints.say("strange", said, level=logging.ERROR)
        return await self._put_aside(message, why)

    def _rested(self) -> None:
        self._resting = None
        self._on_news()

    async def _consume_as_wanted(self) -> None:
        async with self._changing:
            channel, wanted = self._channel, self._free > 0 and self._resting is None
            if channel is None or channel.is_closed or wanted == (self._consumer is not None):
                return
            if wanted:
                async with asking(f"consuming {self._queue}", queue=self._queue):
                    self._consumer = (await channel.basic_consume(self._queue, self._arrived)).consumer_tag
                for tag in channel.consumers.keys() - {self._consumer}:  # what was under way for them is here by now
                    del channel.consumers[tag]
            else:
                # Not waited for: the broker takes one thing after the other, this first. What is under way is met.
                async with asking(f"consuming {self._queue} no more"):
                    await channel.rpc(spec.Basic.Cancel(consumer_tag=self._consumer, nowait=True))
                self._consumer = None

    async def _arrived(self, message: DeliveredMessage) -> None:
        try:
            offer = read(message.header.properties.headers, message.body, Offer)
        except Unreadable as error:
            self._complaints.say(
                "dead", f"a message in {self._queue} was put aside as dead: {error}", level=logging.ERROR
            )
            with suppress(TransportUnavailable):
                async with asking("rejecting a message"):
                    await message.channel.basic_reject(message.delivery_tag or 0, requeue=False)
            return
        assert isinstance(offer, Offer)
        self._offer = BrokerOffer(offer, message, self, wait_s=self._slot_wait_s)
        if self._free <= 0:
            offer_back, self._offer = self._offer, None
            await offer_back.return_it()
        else:
            self._on_news()


class BrokerOffer:
    """An unacknowledged message. What is said about it over a channel that has gone is not needed: it comes again.

    Attributes:
        is_over: It was decided what becomes of it, or it was held for too long.
    """

    def __init__(self, offer: Offer, message: DeliveredMessage, intake: Intake, *, wait_s: float) -> None:
        self.offer = offer
        self.is_over = False
        self._message = message
        self._intake = intake
        self._late: asyncio.Task[None] | None = None
        self._waiting = asyncio.get_running_loop().call_later(wait_s, self._is_late)

    async def done(self, lease: Lease | None = None) -> None:
        if self._decide():
            if lease is not None:
                await self._intake.started()
            await self._say("ack")

    async def back(self) -> None:
        if self._decide():
            await self._intake.rest()
            await self._say("nack")

    async def strange(self, why: str) -> None:
        if self._decide():
            kept = await self._intake.put_aside(self._message, self.offer, why)
            if not kept:
                await self._intake.rest()
            await self._say("ack" if kept else "nack")

    async def return_it(self) -> None:
        """Back, without any fault of this machine: it had room when it asked."""
        if self._decide():
            await self._say("nack")

    def _decide(self) -> bool:
        was_over, self.is_over = self.is_over, True
        self._waiting.cancel()
        return not was_over

    def _is_late(self) -> None:
        self._late = asyncio.ensure_future(self.back())

    async def _say(self, what: str) -> None:
        channel, tag = self._message.channel, self._message.delivery_tag or 0
        with suppress(TransportUnavailable):
            async with asking(f"{what} of an offer"):
                await (channel.basic_ack(tag) if what == "ack" else channel.basic_nack(tag, requeue=True))
