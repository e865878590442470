"""A connection that only publishes: nothing counts as sent that was not confirmed, and routed."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from aiormq import Channel, spec
from aiormq.exceptions import PublishError

from planrun.clock import Clock
from planrun.core.messages import Struct
from planrun.transport.rabbitmq.link import Link, NoQueue, asking
from planrun.transport.rabbitmq.wire import CONTENT_TYPE, HEADER, name_of

SEND_S = 5.0


class Sender:
    """Publishes durably, and waits for the broker's word."""

    def __init__(self, link: Link, clock: Clock) -> None:
        self._link = link
        self._clock = clock
        self._channel: Channel | None = None
        self._opening = asyncio.Lock()

    async def send(self, message: Struct, to: str, *, exchange: str = "") -> bool:
        """Send a message of ours. Returns and raises as `send_raw`."""
        body = msgspec.json.encode(message)
        return await self.send_raw(body, {HEADER: name_of(message)}, to, exchange=exchange)

    async def send_raw(
        self,
        body: bytes,
        headers: dict[str, Any],
        to: str,
        *,
        exchange: str = "",
        message_id: str | None = None,
    ) -> bool:
        """Send bytes as they are.

        Args:
            to: A queue, or the routing key at an exchange.

        Returns:
            True: it lies in a queue. False: there is none to put it into, and it lies nowhere.

        Raises:
            TransportUnavailable: No confirmation: it may have arrived or not.
        """
        properties = spec.Basic.Properties(
            content_type=CONTENT_TYPE,
            headers=headers,
            delivery_mode=2,
            message_id=message_id or self._clock.new_id(),
        )
        channel = await self._open()
        try:
            async with asking(f"sending to {exchange or to}", timeout_s=SEND_S):
                try:
                    await channel.basic_publish(
                        body, exchange=exchange, routing_key=to, properties=properties, mandatory=True
                    )
                except PublishError:  # returned
                    return False
        except NoQueue:  # there is no such exchange; the channel has gone with it
            return False
        return True

    async def close(self) -> None:
        await self._link.drop()

    async def _open(self) -> Channel:
        async with self._opening:
            if self._channel is None or self._channel.is_closed:
                self._channel = await self._link.channel(confirms=True)
            return self._channel
