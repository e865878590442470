"""A lane of offers over one channel."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

from aiormq import Channel, spec
from aiormq.abc import DeliveredMessage

from planrun.complaints import Complaints
from planrun.core.errors import TransportUnavailable
from planrun.core.offers import Offer
from planrun.transport.intake import Held
from planrun.transport.rabbitmq.link import asking
from planrun.transport.rabbitmq.wire import Unreadable, read

PutAside = Callable[[DeliveredMessage, str], Awaitable[bool]]


class RabbitLane:
    """Implements `planrun.transport.intake.Lane`."""

    def __init__(self, queue: str, channel: Channel, *, put_aside: PutAside, complaints: Complaints) -> None:
        """
        Args:
            put_aside: Keeps a message as evidence, byte for byte, and says why; False: it could not.
        """
        self._queue = queue
        self._channel = channel
        self._put_aside = put_aside
        self._complaints = complaints
        self._consumer: str | None = None

    @property
    def is_open(self) -> bool:
        return not self._channel.is_closed

    async def consume(self, arrived: Callable[[Held], Coroutine[Any, Any, None]]) -> None:
        async def hear(message: DeliveredMessage) -> None:
            if (offer := await self._read(message)) is not None:
                await arrived(RabbitHeld(offer, message, self._put_aside))

        channel = self._channel
        async with asking(f"consuming {self._queue}", queue=self._queue):
            self._consumer = (await channel.basic_consume(self._queue, hear)).consumer_tag
        for tag in channel.consumers.keys() - {self._consumer}:  # what was under way for them is here by now
            del channel.consumers[tag]

    async def stop(self) -> None:
        """The broker takes one thing after the other, this first."""
        async with asking(f"consuming {self._queue} no more"):
            await self._channel.rpc(spec.Basic.Cancel(consumer_tag=self._consumer, nowait=True))

    async def _read(self, message: DeliveredMessage) -> Offer | None:
        try:
            offer = read(message.header.properties.headers, message.body, Offer)
        except Unreadable as error:
            self._complaints.say(
                "dead", f"a message in {self._queue} was put aside as dead: {error}", level=logging.ERROR
            )
            with suppress(TransportUnavailable):
                async with asking("rejecting a message"):
                    await message.channel.basic_reject(message.delivery_tag or 0, requeue=False)
            return None
        assert isinstance(offer, Offer)
        return offer


class RabbitHeld:
    """Implements `planrun.transport.intake.Held`."""

    def __init__(self, offer: Offer, message: DeliveredMessage, put_aside: PutAside) -> None:
        self.offer = offer
        self._message = message
        self._put_aside = put_aside

    async def acknowledge(self) -> None:
        with suppress(TransportUnavailable):
            async with asking("ack of an offer"):
                await self._message.channel.basic_ack(self._message.delivery_tag or 0)

    async def give_back(self) -> None:
        with suppress(TransportUnavailable):
            async with asking("nack of an offer"):
                await self._message.channel.basic_nack(self._message.delivery_tag or 0, requeue=True)

    async def put_aside(self, why: str) -> bool:
        return await self._put_aside(self._message, why)
