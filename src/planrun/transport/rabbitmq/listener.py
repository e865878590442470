"""A queue as an application has one, whose answers are all kept: for whoever only wants to see what arrives."""

from __future__ import annotations

from contextlib import suppress

from aiormq import Channel
from aiormq.abc import DeliveredMessage

from planrun.core.errors import TransportUnavailable
from planrun.transport.rabbitmq.link import Link, asking

EXPIRES_MS = 3_600_000  # nobody took anything out for so long: who made it is gone


class Listener:
    """Makes the queue, takes what comes, and deletes the queue in the end.

    Attributes:
        bodies: All that arrived, copies too.
    """

    def __init__(self, link: Link, queue: str) -> None:
        self._link = link
        self._queue = queue
        self._channel: Channel | None = None
        self.bodies: list[str] = []

    async def listen(self) -> None:
        """Go on, if the connection was lost, and make the queue at first.

        Raises:
            TransportUnavailable: The broker does not answer, or its account may not do this.
        """
        if self._channel is not None and not self._channel.is_closed:
            return
        self._channel = await self._link.channel()
        async with asking(f"the queue {self._queue}"):
            await self._channel.queue_declare(self._queue, durable=True, arguments={"x-expires": EXPIRES_MS})
            await self._channel.basic_consume(self._queue, self._take)

    async def close(self) -> None:
        with suppress(TransportUnavailable):
            async with self._link.borrowed() as channel, asking(f"deleting the queue {self._queue}"):
                await channel.queue_delete(self._queue)
        await self._link.drop()

    async def _take(self, message: DeliveredMessage) -> None:
        self.bodies.append(message.body.decode())
        with suppress(TransportUnavailable):  # it comes again, as a copy
            async with asking("acknowledging an answer"):
                await message.channel.basic_ack(message.delivery_tag or 0)
