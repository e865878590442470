"""A worker's end: offers of its lane and words to it come over one connection, heartbeats go over another."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from aiormq import Channel
from aiormq.abc import DeliveredMessage

from planrun.clock import Clock
from planrun.complaints import Complaints
from planrun.core.errors import TransportUnavailable
from planrun.core.flows import Notice
from planrun.core.messages import Lease, RenewRequest, Standing
from planrun.ledger.contract import Ledger
from planrun.transport.beating import beat
from planrun.transport.hearing import Hearing
from planrun.transport.intake import SLOT_WAIT_S, BrokerOffer, Intake
from planrun.transport.rabbitmq.address import Broker
from planrun.transport.rabbitmq.lane import RabbitLane
from planrun.transport.rabbitmq.link import Link, asking, declare, ensure
from planrun.transport.rabbitmq.sender import Sender
from planrun.transport.rabbitmq.wire import Unreadable, read

log = logging.getLogger(__name__)

AGAIN_S = 1.0
REASON = "planrun-reason"


class RabbitWorker:
    """Implements `planrun.transport.contract.WorkerTransport`."""

    def __init__(
        self,
        broker: Broker,
        ledger: Ledger,
        clock: Clock,
        *,
        incarnation: str,
        lane: str,
        lost: Callable[[], None] | None = None,
        slot_wait_s: float = SLOT_WAIT_S,
    ) -> None:
        """
        Args:
            lost: As in `Link`.
            slot_wait_s: As in `Intake`.
        """
        self._topology = broker.topology
        self._ledger = ledger
        self._clock = clock
        self._lane = self._topology.offers(lane)
        self._control = self._topology.control(incarnation)
        self._link = Link(broker.url, clock, name=f"planrun {incarnation} consumes", lost=lost)
        self._sender = Sender(Link(broker.url, clock, name=f"planrun {incarnation} publishes", lost=lost), clock)
        self._hearing = Hearing()
        self._complaints = Complaints(log, clock)
        self._intake = Intake(slot_wait_s=slot_wait_s, on_news=self._hearing.ring, complaints=self._complaints)
        self._keeping: asyncio.Task[None] | None = None

    async def offers(self, free: int) -> Sequence[BrokerOffer]:
        self._start()
        return await self._intake.take(free)

    async def glance(self) -> Sequence[BrokerOffer]:
        return ()

    async def changed(self, *, timeout_s: float) -> None:
        self._start()
        await self._hearing.changed(timeout_s=timeout_s)

    async def beat(self, request: RenewRequest) -> Sequence[Standing] | None:
        return await beat(request, self._ledger, self._send_beat)

    async def notices(self, leases: Sequence[Lease]) -> Sequence[Notice]:
        return self._hearing.notices(leases)

    async def close(self) -> None:
        """The broker gives to others whatever was not acknowledged."""
        self._intake.stop()
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        await self._link.drop()
        await self._sender.close()

    # --- staying connected ---

    def _start(self) -> None:
        if self._keeping is None:
            self._keeping = asyncio.create_task(self._keep_connected())

    async def _keep_connected(self) -> None:
        while True:
            try:
                await self._consume()
                why = "the broker ended the connection, a channel or a consumer"
            except TransportUnavailable as error:
                why = str(error)
            except Exception:  # a fault of planrun must not leave a worker that looks well and gets nothing
                log.exception("the connection to the broker is opened anew")
                why = "a fault of planrun"
            self._complaints.say("connection", f"nothing is offered for now, will try again: {why}")
            await self._link.drop()
            await self._clock.sleep(AGAIN_S)

    async def _consume(self) -> None:
        """Until something breaks.

        Raises:
            TransportUnavailable: It cannot even begin.
        """
        await ensure(self._link, self._topology.dead)
        await ensure(self._link, self._lane)
        await declare(self._link, self._control)
        broken = asyncio.Event()
        control = await self._open(broken)
        async with asking(f"consuming {self._control.name}"):
            await control.basic_consume(self._control.name, self._hear, no_ack=True)
        offers = await self._open(broken, prefetch=1)
        await self._intake.connect(
            RabbitLane(self._lane.name, offers, put_aside=self._put_aside, complaints=self._complaints)
        )
        self._hearing.ring()
        if self._complaints.over("connection"):
            log.info("connected to the broker again")
        await broken.wait()

    async def _open(self, broken: asyncio.Event, *, prefetch: int = 0) -> Channel:
        channel = await self._link.channel(prefetch=prefetch)
        channel.closing.add_done_callback(lambda _: broken.set())
        channel.on_consumer_cancel_callbacks.add(lambda _: broken.set())
        return channel

    # --- messages ---

    async def _send_beat(self, request: RenewRequest) -> bool:
        return await self._sender.send(request, "", exchange=self._topology.beat_exchange)

    async def _hear(self, message: DeliveredMessage) -> None:
        try:
            notice = read(message.header.properties.headers, message.body, Notice)
        except Unreadable as error:
            self._complaints.say("word", f"a word to this worker was not understood: {error}", level=logging.ERROR)
            return
        assert isinstance(notice, Notice)
        self._hearing.hear(notice)

    async def _put_aside(self, message: DeliveredMessage, why: str) -> bool:
        """Keep a message that the ledger did not know. False: it could not be kept, so it must not be acknowledged."""
        orphans, properties = self._topology.orphans, message.header.properties
        headers = {**(properties.headers or {}), REASON: why}
        try:
            for _ in range(2):
                if await self._sender.send_raw(message.body, headers, orphans.name, message_id=properties.message_id):
                    return True
                await declare(self._link, orphans)
        except TransportUnavailable as error:
            self._complaints.say("orphan", f"an offer could not be put aside, and goes back in line: {error}")
        return False
