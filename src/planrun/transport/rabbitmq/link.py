"""A connection that is opened when it is needed, and anew once it was lost; and what asking over it can raise."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import aiormq
from aiormq import Channel
from aiormq.abc import AbstractConnection
from aiormq.exceptions import (
    AMQPError,
    ChannelLockedResource,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    InvalidFrameError,
)

from planrun.clock import Clock
from planrun.core.errors import TransportUnavailable
from planrun.transport.rabbitmq.address import shown
from planrun.transport.rabbitmq.topology import Queue

CONNECT_S = 10.0
ASK_S = 10.0
REST_MS = 500  # after a failure, nobody asks again at once

for _name in ("aiormq", "aio_pika"):  # whatever they log is raised, too, and said here
    logging.getLogger(_name).setLevel(logging.CRITICAL)


class NoQueue(TransportUnavailable):
    """There is no queue, or no exchange, of that name."""


class OtherQueue(TransportUnavailable):
    """There is one of that name, declared otherwise."""


class Held(TransportUnavailable):
    """Another connection holds it, and nobody else gets it as long as that lives."""


@asynccontextmanager
async def asking(what: str, *, timeout_s: float = ASK_S, queue: str = "") -> AsyncIterator[None]:
    """Around everything that is asked of a broker.

    Args:
        queue: Which one it is about, if that could be without a leader.

    Raises:
        TransportUnavailable: No answer, or a bad one.
    """
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except ChannelNotFoundEntity as error:
        raise NoQueue(f"{what}: {error}") from None
    except ChannelPreconditionFailed as error:
        raise OtherQueue(f"{what}: {error}") from None
    except ChannelLockedResource as error:
        raise Held(f"{what}: {error}") from None
    except TimeoutError:
        leaderless = f"; if others do answer, it has no leader: rabbitmqctl delete_queue {queue}; it is made anew"
        raise TransportUnavailable(f"{what}: no answer within {timeout_s:g} s{leaderless if queue else ''}") from None
    except (AMQPError, OSError, RuntimeError, EOFError) as error:
        raise TransportUnavailable(f"{what}: {error or type(error).__name__}") from None
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise TransportUnavailable(f"{what}: the connection was lost") from None  # so aiormq says it


class Link:
    """One connection to the broker."""

    def __init__(self, url: str, clock: Clock, *, name: str, lost: Callable[[], None] | None = None) -> None:
        """
        Args:
            name: What the broker's operator sees.
            lost: Called each time it could not be reached.
        """
        self._url = url
        self._lost = lost
        self._clock = clock
        self._name = name
        self._connection: AbstractConnection | None = None
        self._connecting = asyncio.Lock()
        self._failed: tuple[int, TransportUnavailable] | None = None

    async def channel(self, *, confirms: bool = False, prefetch: int = 0) -> Channel:
        """A fresh channel.

        Raises:
            TransportUnavailable: The broker cannot be reached now.
        """
        async with self._connecting:
            connection = await self._open()
        async with asking(f"the broker at {shown(self._url)}"):
            channel = await connection.channel(publisher_confirms=confirms, on_return_raises=True)
            assert isinstance(channel, Channel)
            if prefetch:
                await channel.basic_qos(prefetch_count=prefetch)
        return channel

    @asynccontextmanager
    async def borrowed(self) -> AsyncIterator[Channel]:
        """A channel for one question: a refused one takes its channel down."""
        channel = await self.channel()
        try:
            yield channel
        finally:
            with suppress(TransportUnavailable):
                async with asking("closing a channel"):
                    await channel.close()

    async def product(self) -> str:
        """What the broker calls itself, and its version.

        Raises:
            TransportUnavailable: It cannot be reached now.
        """
        async with self._connecting:
            said = (await self._open()).server_properties
        return f"{said.get('product', 'a broker')!s} {said.get('version', 'of no version')!s}"

    async def drop(self) -> None:
        """Give the connection up, whatever state it is in. It is opened anew when it is needed."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(TransportUnavailable):
                async with asking("closing the connection", timeout_s=2):
                    await connection.close()

    async def _open(self) -> AbstractConnection:
        if self._connection is not None and self._connection.is_opened:
            return self._connection
        now_ms = self._clock.boot_ms()
        if self._failed is not None and now_ms < self._failed[0] + REST_MS:
            raise self._failed[1]
        await self.drop()
        closed = f"the broker at {shown(self._url)} cannot be reached"
        try:
            async with asking(closed, timeout_s=CONNECT_S):
                try:
                    self._connection = await aiormq.connect(
                        self._url, client_properties={"connection_name": self._name}
                    )
                except InvalidFrameError:  # what aiormq makes of a refusal at the last step
                    raise TransportUnavailable(f"{closed}: no such virtual host, or not for this user") from None
        except TransportUnavailable as error:
            self._failed = (now_ms, error)
            if self._lost is not None:
                self._lost()
            raise
        self._failed = None
        return self._connection


async def declare(link: Link, queue: Queue) -> int:
    """Make it, unless it is there.

    Returns:
        How many messages wait in it.

    Raises:
        OtherQueue: It is there, and is another one. Says what to do.
        TransportUnavailable: No answer.
    """
    try:
        async with link.borrowed() as channel, asking(f"declaring the queue {queue.name}", queue=queue.name):
            made = await channel.queue_declare(queue.name, durable=True, arguments=queue.arguments)
            return made.message_count or 0
    except OtherQueue as error:
        raise OtherQueue(
            f"{error}. It was made by another version or with another type of queue: delete it on the broker (what"
            " lies in it is offered again), or choose another prefix"
        ) from None


async def hold(link: Link, name: str) -> None:
    """Hold a name for as long as this connection lives; holding it already is fine. The broker lets go of it then.

    Raises:
        Held: Another connection has it.
        TransportUnavailable: No answer.
    """
    async with link.borrowed() as channel, asking(f"holding {name}"):
        await channel.queue_declare(name, exclusive=True, arguments={"x-queue-type": "classic"})


async def look_at(link: Link, queue: Queue) -> int:
    """How many messages wait in it.

    Raises:
        NoQueue: There is none of that name.
        TransportUnavailable: No answer.
    """
    async with link.borrowed() as channel, asking(f"looking at the queue {queue.name}", queue=queue.name):
        found = await channel.queue_declare(queue.name, passive=True)
        return found.message_count or 0


async def ensure(link: Link, queue: Queue) -> None:
    """Use it as it is; make it where there is none. For whoever does not own it. Raises as `declare`."""
    try:
        await look_at(link, queue)
    except NoQueue:
        await declare(link, queue)
