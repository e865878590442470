"""The contract of the transport, kept by a real RabbitMQ: with classic and with quorum queues."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from deploy.local.rabbitmq import NEEDS, RabbitMQ
from planrun.clock import SystemClock
from planrun.core.names import digest
from planrun.ledger.contract import Ledger
from planrun.transport.contract import FleetTransport, WorkerTransport
from planrun.transport.rabbitmq.address import Broker, broker_at
from planrun.transport.rabbitmq.fleet import RabbitFleet
from planrun.transport.rabbitmq.link import Link, declare
from planrun.transport.rabbitmq.topology import Queue
from planrun.transport.rabbitmq.worker import RabbitWorker
from planrun.wiring import open_ledger

from .actors import Actors
from .fleet_transport_contract import LANE_OF_ALL, Brokered, FleetTransportContract, Inbox, Join
from .manual_clock import ManualClock
from .transport_contract import Fleet, TransportContract

pytestmark = pytest.mark.needs(NEEDS)


NO_LEDGER = cast("Ledger", None)


async def join_broker(broker: Broker, ledger: Ledger, incarnation: str, lane: str) -> WorkerTransport:
    """A worker's end that is connected."""
    worker = RabbitWorker(broker, ledger, SystemClock.open_system(), incarnation=incarnation, lane=lane)
    await worker.changed(timeout_s=20)
    return worker


class Rabbit(Brokered):
    def __init__(self, they: Actors, broker: Broker) -> None:
        super().__init__(they, RabbitFleet(broker, SystemClock.open_system(), generation=1))
        self.broker = broker

    async def join(self, incarnation: str) -> WorkerTransport:
        return await join_broker(self.broker, self.they.ledger, incarnation, LANE_OF_ALL)


class RabbitInbox(Inbox):
    def __init__(self, link: Link, address: str) -> None:
        self.address = address
        self._link = link

    async def create(self) -> None:
        await declare(self._link, Queue(self.address, {}))

    async def received(self) -> list[tuple[str, str]]:
        received = []
        async with self._link.borrowed() as channel:
            while (message := await channel.basic_get(self.address, no_ack=True)).body:
                received.append((message.header.properties.message_id or "", message.body.decode()))
        return received


class OverRabbit:
    """Each test has names of its own."""

    queue_type: str

    @pytest.fixture
    def broker(self, rabbitmq: RabbitMQ, tmp_path: Path) -> Broker:
        return broker_at(f"{rabbitmq.url}?queues={self.queue_type}", f"pr-{digest(str(tmp_path))[:12]}")


class RabbitTransport(OverRabbit, TransportContract):
    @pytest.fixture
    async def fleet(self, broker: Broker, clock: ManualClock, tmp_path: Path) -> AsyncIterator[Fleet]:
        ledger = open_ledger(f"sqlite:///{tmp_path}/ledger.db", clock=clock)
        fleet = Rabbit(Actors(ledger, clock), broker)
        await fleet.transport.begin_epoch(1)
        yield fleet
        await fleet.transport.close()
        await ledger.close()


class RabbitFleetTransport(OverRabbit, FleetTransportContract):
    @pytest.fixture
    async def transport(self, broker: Broker) -> AsyncIterator[FleetTransport]:
        transport = RabbitFleet(broker, SystemClock.open_system(), generation=1)
        yield transport
        await transport.close()

    @pytest.fixture
    async def join(self, broker: Broker) -> AsyncIterator[Join]:
        workers = []

        async def join(incarnation: str, lane: str) -> WorkerTransport:
            workers.append(await join_broker(broker, NO_LEDGER, incarnation, lane))
            return workers[-1]

        yield join
        for worker in workers:
            await worker.close()

    @pytest.fixture
    async def inbox(self, broker: Broker) -> AsyncIterator[Inbox]:
        link = Link(broker.url, SystemClock.open_system(), name="an application")
        yield RabbitInbox(link, f"{broker.topology.prefix}.answers")
        await link.drop()


class TestClassic(RabbitTransport):
    queue_type = "classic"


class TestQuorum(RabbitTransport):
    queue_type = "quorum"


class TestClassicFleet(RabbitFleetTransport):
    queue_type = "classic"


class TestQuorumFleet(RabbitFleetTransport):
    queue_type = "quorum"
