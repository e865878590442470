"""The orchestrator's end: it owns the queues, takes heartbeats in, and sends everything else out."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from aiormq import Channel
from aiormq.abc import DeliveredMessage

from planrun.clock import Clock
from planrun.complaints import Complaints
from planrun.core.errors import TransportUnavailable, Unroutable
from planrun.core.flows import Marker, Notice
from planrun.core.messages import Message, RenewRequest
from planrun.core.offers import Offer
from planrun.transport.rabbitmq.address import Broker
from planrun.transport.rabbitmq.link import Held, Link, NoQueue, asking, declare, hold, look_at
from planrun.transport.rabbitmq.sender import Sender
from planrun.transport.rabbitmq.topology import Queue
from planrun.transport.rabbitmq.wire import ANSWER, HEADER, Unreadable, read

log = logging.getLogger(__name__)

BEATS_AT_ONCE = 1000


class RabbitFleet:
    """Implements `planrun.transport.contract.FleetTransport`."""

    def __init__(self, broker: Broker, clock: Clock, *, generation: int) -> None:
        """
        Args:
            generation: Of the ledger; with the epoch it names the place of the heartbeats.
        """
        self._topology = broker.topology
        self._generation = generation
        self._link = Link(broker.url, clock, name="planrun orchestrator consumes")
        self._sender = Sender(Link(broker.url, clock, name="planrun orchestrator publishes"), clock)
        self._clock = clock
        self._complaints = Complaints(log, clock)
        self._beats: Beats | None = None
        self._places: set[str] = set()  # queues of this epoch and of earlier ones
        self._breaks = 0

    # --- offers ---

    async def send_offer(self, lane: str, offer: Offer) -> None:
        queue = self._topology.offers(lane)
        if not await self._sender.send(offer, queue.name):
            await declare(self._link, self._topology.dead)
            await declare(self._link, queue)
            if not await self._sender.send(offer, queue.name):
                raise TransportUnavailable(f"the queue {queue.name} was deleted while an offer was sent there")

    async def waiting(self, lane: str) -> int:
        return await self._count(self._topology.offers(lane))

    async def orphans(self) -> int:
        return await self._count(self._topology.orphans)

    async def _count(self, queue: Queue) -> int:
        try:
            return await look_at(self._link, queue)
        except NoQueue:
            return 0

    # --- heartbeats ---

    async def begin_epoch(self, epoch: int) -> None:
        """The exchange is made anew, so that nothing but the new queue is bound to it, whoever made the others.

        Of the orchestrators with one prefix a single one may: another one's ledger does not know the leases of this
        fleet, would take their heartbeats in, and tell all workers that their jobs are lost.
        """
        await self._hold_the_prefix()
        await self._end_beats()
        exchange, queue = self._topology.beat_exchange, self._topology.beats(self._generation, epoch)
        await declare(self._link, self._topology.dead)
        self._places.add(queue.name)
        await declare(self._link, queue)
        channel = await self._link.channel(prefetch=BEATS_AT_ONCE)
        beats = Beats(channel, self._broke, self._complaints)
        try:
            async with asking(f"beginning the epoch {epoch} of the heartbeats"):
                await channel.exchange_delete(exchange)
                await channel.exchange_declare(exchange, exchange_type="fanout", durable=True)
                await channel.queue_bind(queue.name, exchange)
                await beats.consume(queue.name)
        except TransportUnavailable:
            await beats.close()
            raise
        self._beats = beats
        await self._forget_places(but=queue.name)

    async def _hold_the_prefix(self) -> None:
        try:
            await hold(self._link, self._topology.owner)
        except Held:
            raise TransportUnavailable(
                f"another orchestrator uses this broker with the prefix {self._topology.prefix}: give one of them"
                " another one (--broker-prefix); of one that was cut off the broker knows within half a minute"
            ) from None

    async def _forget_places(self, *, but: str) -> None:
        """Delete those of earlier epochs, also of such as could not begin. Those of others go when unused for long."""
        for place in self._places - {but}:
            with suppress(TransportUnavailable):  # in the worst case it goes like those of others
                async with self._link.borrowed() as channel, asking(f"deleting the queue {place}"):
                    await channel.queue_delete(place)
        self._places = {but}

    async def beats(self, *, timeout_s: float) -> Sequence[RenewRequest | Marker]:
        if self._beats is None or self._beats.is_over:
            self._breaks += 1  # once more: whoever asks here has not seen that it was interrupted
            await self._clock.sleep(timeout_s)
            return ()
        return await self._beats.take(timeout_s)

    async def mark(self, marker: Marker) -> None:
        exchange = self._topology.beat_exchange
        if not await self._sender.send(marker, "", exchange=exchange):
            self._broke()  # the queue may be well, and its consumer too: nothing else would ever say so
            raise TransportUnavailable(f"no queue of heartbeats is bound to {exchange}: a new epoch has to begin")

    @property
    def breaks(self) -> int:
        return self._breaks

    def _broke(self) -> None:
        self._breaks += 1

    async def _end_beats(self) -> None:
        if self._beats is not None:
            beats, self._beats = self._beats, None
            await beats.close()

    # --- control and outlet ---

    async def tell(self, incarnation: str, notice: Notice) -> None:
        """A worker without a queue has gone: then there is nobody to be told."""
        await self._sender.send(notice, self._topology.control(incarnation).name)

    async def deliver(self, address: str, message: Message) -> None:
        headers = {HEADER: ANSWER}
        if not await self._sender.send_raw(message.body.encode(), headers, address, message_id=message.msg_id):
            raise Unroutable(f"the broker has no queue {address}: whoever wants the answer declares it")

    async def close(self) -> None:
        await self._end_beats()
        await self._link.drop()
        await self._sender.close()


class Beats:
    """The one consumer of one epoch. Once it breaks it is over: nobody knows what was missed."""

    def __init__(self, channel: Channel, on_break: Callable[[], None], complaints: Complaints) -> None:
        self._channel = channel
        self._complaints = complaints
        self._on_break: Callable[[], None] | None = on_break
        self._arrived: deque[tuple[int, RenewRequest | Marker]] = deque()
        self._news = asyncio.Event()
        self._taken = 0  # the last one that was handed out
        channel.closing.add_done_callback(lambda _: self._break())
        channel.on_consumer_cancel_callbacks.add(lambda _: self._break())

    async def consume(self, queue: str) -> None:
        await self._channel.basic_consume(queue, self._hear)

    async def take(self, timeout_s: float) -> Sequence[RenewRequest | Marker]:
        """What has arrived. What the call before has returned is acknowledged."""
        if self._taken:
            async with asking("acknowledging heartbeats"):
                await self._channel.basic_ack(self._taken, multiple=True)
            self._taken = 0
        if not self._arrived:
            self._news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._news.wait()
        if self.is_over:  # broken meanwhile
            return ()
        batch = list(self._arrived)
        self._arrived.clear()
        if batch:
            self._taken = batch[-1][0]
        return [message for _, message in batch]

    async def close(self) -> None:
        """On purpose: that is no break."""
        self._on_break = None
        with suppress(TransportUnavailable):
            async with asking("closing the channel of the heartbeats"):
                await self._channel.close()

    @property
    def is_over(self) -> bool:
        return self._on_break is None

    def _break(self) -> None:
        on_break, self._on_break = self._on_break, None
        if on_break is not None:
            on_break()
            self._news.set()

    async def _hear(self, message: DeliveredMessage) -> None:
        tag = message.delivery_tag or 0
        try:
            heard = read(message.header.properties.headers, message.body, RenewRequest, Marker)
        except Unreadable as error:
            self._complaints.say("dead", f"a heartbeat was put aside as dead: {error}", level=logging.ERROR)
            with suppress(TransportUnavailable):
                async with asking("rejecting a heartbeat"):
                    await self._channel.basic_reject(tag, requeue=False)
            return
        assert isinstance(heard, RenewRequest | Marker)
        self._arrived.append((tag, heard))
        self._news.set()
