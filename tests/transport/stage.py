"""Both ends of one fleet on a real broker, and a ledger that answers every heartbeat."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from aiormq import spec

from deploy.local.rabbitmq import OLD_ENOUGH_S, RabbitMQ
from planrun.clock import SystemClock
from planrun.ledger.contract import Ledger
from planrun.transport.contract import WorkerTransport
from planrun.transport.rabbitmq.address import Broker
from planrun.transport.rabbitmq.fleet import RabbitFleet
from planrun.transport.rabbitmq.link import Link, NoQueue, look_at
from planrun.transport.rabbitmq.topology import Queue
from planrun.transport.rabbitmq.worker import RabbitWorker
from tests.contract.broker_faults_contract import Frail
from tests.contract.fleet_transport_contract import LANE
from tests.contract.transport_contract import soon

CLOCK = SystemClock.open_system()


class Stage(Frail):
    """Attributes:
    outside: A connection of nobody, to look and to meddle with.
    """

    def __init__(self, broker: Broker, rabbitmq: RabbitMQ) -> None:
        super().__init__(RabbitFleet(broker, CLOCK, generation=1))
        self.broker = broker
        self.rabbitmq = rabbitmq
        self.topology = broker.topology
        self.lane = broker.topology.offers(LANE)
        self.outside = Link(broker.url, CLOCK, name="outside")
        self._epoch = 0

    def open_worker(self, incarnation: str, **given: Any) -> WorkerTransport:
        ledger = cast("Ledger", self.ledger)
        return RabbitWorker(self.broker, ledger, CLOCK, incarnation=incarnation, lane=LANE, **given)

    async def epoch(self, number: int) -> None:
        await super().epoch(number)
        self._epoch = number

    async def die(self) -> None:
        await asyncio.to_thread(time.sleep, OLD_ENOUGH_S)  # what the broker itself needs
        await asyncio.to_thread(self.rabbitmq.kill)

    async def stop(self) -> None:
        await asyncio.to_thread(self.rabbitmq.stop)

    async def start(self) -> None:
        await asyncio.to_thread(self.rabbitmq.start)

    async def wipe(self) -> None:
        await asyncio.to_thread(self.rabbitmq.wipe)

    async def lose_beats(self) -> None:
        await self.delete(self.topology.beats(1, self._epoch))

    @asynccontextmanager
    async def alarm(self) -> AsyncIterator[None]:
        await asyncio.to_thread(self.rabbitmq.alarm, True)
        try:
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr("planrun.transport.rabbitmq.sender.SEND_S", 0.5)
                yield
        finally:
            await asyncio.to_thread(self.rabbitmq.alarm, False)

    async def lying(self) -> int:
        counted = dict(await asyncio.to_thread(self.rabbitmq.queues, "messages"))
        return int(counted[self.lane.name])

    async def delete(self, queue: Queue) -> None:
        """Somebody deletes it."""
        async with self.outside.borrowed() as channel:
            await channel.queue_delete(queue.name)

    async def put(self, queue: Queue, body: bytes, headers: dict[str, Any] | None = None) -> None:
        """A message from somewhere."""
        async with self.outside.borrowed() as channel:
            properties = spec.Basic.Properties(headers=headers, message_id="theirs", delivery_mode=2)
            await channel.basic_publish(body, routing_key=queue.name, properties=properties, mandatory=True)

    async def taken_from(self, queue: Queue) -> list[tuple[bytes, dict[str, Any]]]:
        """What lies in a queue, once something does."""

        async def look() -> list[tuple[bytes, dict[str, Any]]]:
            found = []
            async with self.outside.borrowed() as channel:
                while isinstance((got := await channel.basic_get(queue.name, no_ack=True)).delivery, spec.Basic.GetOk):
                    found.append((got.body, dict(got.header.properties.headers or {})))
            return found

        return await soon(look)

    async def count(self, queue: Queue) -> int:
        try:
            return await look_at(self.outside, queue)
        except NoQueue:
            return 0

    async def close(self) -> None:
        await super().close()
        await self.outside.drop()


@asynccontextmanager
async def a_stage(broker: Broker, rabbitmq: RabbitMQ) -> AsyncIterator[Stage]:
    stage = Stage(broker, rabbitmq)
    try:
        yield stage
    finally:
        await stage.close()
