"""A broker's channel that notes what is said over it, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import aiormq
import msgspec
from aiormq import spec
from aiormq.abc import DeliveredMessage
from pamqp.header import ContentHeader

from planrun.core.messages import Struct
from planrun.transport.rabbitmq.link import Link
from planrun.transport.rabbitmq.wire import HEADER, name_of

Hear = Callable[[DeliveredMessage], Awaitable[None]]


class Channel:
    """Attributes:
    said: The calls, in order.
    refuse: Raised by the next publish.
    """

    def __init__(self) -> None:
        self.said: list[str] = []
        self.is_closed = False
        self.closing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.on_consumer_cancel_callbacks: set[Callable[[object], object]] = set()
        self.refuse: Exception | None = None
        self.consumers: dict[str, Hear] = {}
        self._hear: Hear | None = None
        self._tags = 0

    async def basic_consume(self, queue: str, hear: Hear, **_: Any) -> spec.Basic.ConsumeOk:
        self._hear = hear
        self.said.append("consume")
        self.consumers["c"] = hear
        return spec.Basic.ConsumeOk(consumer_tag="c")

    async def rpc(self, frame: spec.Basic.Cancel) -> None:
        assert frame.nowait  # so that what follows need not wait for the answer
        self.said.append("cancel")

    async def basic_ack(self, tag: int, multiple: bool = False) -> None:
        self.said.append(f"ack {tag}")

    async def basic_nack(self, tag: int, requeue: bool) -> None:
        self.said.append(f"nack {tag}")

    async def basic_reject(self, tag: int, requeue: bool) -> None:
        self.said.append(f"reject {tag}")

    async def basic_publish(self, body: bytes, *, mandatory: bool, **_: Any) -> None:
        self.said.append(f"publish {'mandatory' if mandatory else ''}".strip())
        if self.refuse is not None:
            raise self.refuse

    async def deliver(self, message: Struct | bytes) -> None:
        """The broker hands a message over."""
        self._tags += 1
        name = "offer/1" if isinstance(message, bytes) else name_of(message)
        body = message if isinstance(message, bytes) else msgspec.json.encode(message)
        assert self._hear is not None
        await self._hear(
            DeliveredMessage(
                delivery=spec.Basic.Deliver(consumer_tag="c", delivery_tag=self._tags, exchange="", routing_key=""),
                header=ContentHeader(properties=spec.Basic.Properties(headers={HEADER: name})),
                body=body,
                channel=self.as_aiormq,
            )
        )

    @property
    def as_aiormq(self) -> aiormq.Channel:
        return cast("aiormq.Channel", self)


class OneChannel:
    """A connection that always has the same channel."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def channel(self, **_: Any) -> aiormq.Channel:
        return self._channel.as_aiormq

    async def drop(self) -> None: ...

    @property
    def as_link(self) -> Link:
        return cast("Link", self)
