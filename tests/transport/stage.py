"""Both ends of one fleet on a real broker, and a ledger that answers every heartbeat."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

from aiormq import spec

from planrun.clock import SystemClock
from planrun.core.errors import LedgerUnavailable, TransportUnavailable
from planrun.core.messages import Lease, RenewRequest, Standing
from planrun.ledger.contract import Ledger
from planrun.transport.intake import BrokerOffer
from planrun.transport.rabbitmq.address import Broker
from planrun.transport.rabbitmq.fleet import RabbitFleet
from planrun.transport.rabbitmq.link import Link, NoQueue, look_at
from planrun.transport.rabbitmq.topology import Queue
from planrun.transport.rabbitmq.worker import RabbitWorker
from tests.contract.fleet_transport_contract import LANE, an_offer
from tests.contract.transport_contract import a_beat, soon

LEASE = Lease(job_id="j1", attempt=1, token=1)
BEAT = a_beat(LEASE)
HELD = [Standing(status="held")]
CLOCK = SystemClock.open_system()


class Answering:
    """A ledger that the worker can reach beside the broker, or cannot."""

    def __init__(self) -> None:
        self.is_there = True
        self.asked = 0

    async def renew(self, request: RenewRequest) -> Sequence[Standing]:
        self.asked += 1
        if not self.is_there:
            raise LedgerUnavailable("no orchestrator")
        return [Standing(status="held") for _ in request.beats]


class Stage:
    """Attributes:
    outside: A connection of nobody, to look and to meddle with.
    """

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.topology = broker.topology
        self.lane = broker.topology.offers(LANE)
        self.ledger = Answering()
        self.fleet = RabbitFleet(broker, CLOCK, generation=1)
        self.outside = Link(broker.url, CLOCK, name="outside")
        self.workers: list[RabbitWorker] = []

    async def join(self, incarnation: str = "w1", **given: Any) -> RabbitWorker:
        """A worker's end, connected unless the broker is down."""
        ledger = cast("Ledger", self.ledger)
        worker = RabbitWorker(self.broker, ledger, CLOCK, incarnation=incarnation, lane=LANE, **given)
        self.workers.append(worker)
        await worker.changed(timeout_s=2)
        return worker

    async def offer(self, job_id: str) -> None:
        """As the dispatcher does it: until it is confirmed."""

        async def send() -> bool:
            try:
                await self.fleet.send_offer(LANE, an_offer(job_id))
            except TransportUnavailable:
                return False
            return True

        await soon(send)

    async def epoch(self, number: int) -> None:
        async def begin() -> bool:
            try:
                await self.fleet.begin_epoch(number)
            except TransportUnavailable:
                return False
            return True

        await soon(begin)

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
        for worker in self.workers:
            await worker.close()
        await self.fleet.close()
        await self.outside.drop()


@asynccontextmanager
async def a_stage(broker: Broker) -> AsyncIterator[Stage]:
    stage = Stage(broker)
    try:
        yield stage
    finally:
        await stage.close()


async def next_job(worker: RabbitWorker, within_s: float = 40) -> BrokerOffer:
    """Waits like a supervisor: woken, or every now and then."""
    async with asyncio.timeout(within_s):
        while not (offers := await worker.offers(1)):
            await worker.changed(timeout_s=1)
        return offers[0]
