"""The contract of the transport, kept by the simulator's model of a broker, in virtual time.

A model that promises more than a real RabbitMQ, or less, makes histories that prove nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from planrun.ledger.contract import Ledger
from planrun.sim.ends import FleetEnd, WorkerEnd
from planrun.sim.machines import Receiver
from planrun.sim.settings import Mode, Settings
from planrun.sim.world import World
from planrun.transport.contract import FleetTransport, WorkerTransport
from planrun.wiring import open_ledger
from tests.sim.conftest import loaded_stays

from .actors import Actors
from .broker_faults_contract import BrokerFaultsContract, Frail, outlive_a_kill
from .fleet_transport_contract import LANE, LANE_OF_ALL, Brokered, FleetTransportContract, Inbox, Join
from .manual_clock import ManualClock
from .transport_contract import Fleet, TransportContract, soon

__all__ = ["loaded_stays"]
NO_LEDGER = cast("Ledger", None)


async def join_broker(world: World, ledger: Ledger, incarnation: str, lane: str) -> WorkerTransport:
    """A worker's end that is connected."""
    machine = world.machines[incarnation]
    worker = WorkerEnd(world, machine, world.loop.world, ledger, incarnation=incarnation, lane=lane)
    await worker.changed(timeout_s=20)
    return worker


class Simulated(Brokered):
    def __init__(self, they: Actors, world: World, transport: FleetTransport) -> None:
        super().__init__(they, transport)
        self.world = world

    async def join(self, incarnation: str) -> WorkerTransport:
        return await join_broker(self.world, self.they.ledger, incarnation, LANE_OF_ALL)


class SimInbox(Inbox, Receiver):
    """The application takes what lies in its queue as soon as there is one."""

    address = "answers"

    def __init__(self, world: World) -> None:
        Receiver.__init__(self, world, world.receiver.name, world.receiver.hardware)
        self._taken: list[tuple[str, str]] = []
        world.receiver = self
        world.broker.declared = False

    async def create(self) -> None:
        self.start()
        self.world.broker.declared = True

    async def received(self) -> list[tuple[str, str]]:
        async def all_taken() -> bool:
            return not self.world.broker.answers

        await soon(all_taken)
        return self._taken

    def take(self, msg_id: str, body: str) -> None:
        self._taken.append((msg_id, body))


class InVirtualTime:
    """A world in which the broker runs, and whose loop runs the test."""

    @pytest.fixture
    def world(self) -> Iterator[World]:
        world = World(1, Settings(mode=Mode.FLEET, workers=2, orders=()), traced=False)
        world.broker.start()
        yield world
        mishaps = world.loop.mishaps
        world.close()
        assert mishaps == []

    @pytest.fixture
    def anyio_backend(self, world: World) -> tuple[str, dict[str, Any]]:
        return "asyncio", {"loop_factory": lambda: world.loop}

    @pytest.fixture
    async def transport(self, world: World) -> AsyncIterator[FleetTransport]:
        transport = FleetEnd(world, world.hub, world.loop.world, generation=1)
        yield transport
        await transport.close()


class SimFrail(Frail):
    def __init__(self, world: World, fleet: FleetTransport) -> None:
        super().__init__(fleet)
        self.world = world

    def open_worker(self, incarnation: str, **given: Any) -> WorkerTransport:
        machine, ledger = self.world.machines[incarnation], cast("Ledger", self.ledger)
        return WorkerEnd(
            self.world, machine, self.world.loop.world, ledger, incarnation=incarnation, lane=LANE, **given
        )

    async def die(self) -> None:
        self.world.broker.is_wanted = False
        self.world.broker.crash()

    async def stop(self) -> None:
        await self.die()

    async def start(self) -> None:
        self.world.broker.is_wanted = True
        self.world.broker.start()

    async def wipe(self) -> None:
        self.world.broker.wipe()
        await self.die()

    async def lose_beats(self) -> None:
        self.world.broker.lose_beats()

    @asynccontextmanager
    async def alarm(self) -> AsyncIterator[None]:
        self.world.broker.is_blocked = True
        yield
        self.world.broker.is_blocked = False

    async def lying(self) -> int:
        return len(self.world.broker.lying())


class TestSimulatedFaults(InVirtualTime, BrokerFaultsContract):
    @pytest.fixture
    async def stage(self, world: World, transport: FleetTransport) -> AsyncIterator[Frail]:
        stage = SimFrail(world, transport)
        yield stage
        await stage.close()

    async def test_a_killed_broker_keeps_what_it_confirmed_and_both_ends_come_back(self, stage: Frail) -> None:
        await outlive_a_kill([stage])


class TestSimulated(InVirtualTime, TransportContract):
    @pytest.fixture
    async def fleet(self, world: World, transport: FleetTransport, clock: ManualClock) -> AsyncIterator[Fleet]:
        ledger = open_ledger(world.url, clock=clock, hands=world.disk.hands(world.loop.world))
        await transport.begin_epoch(1)
        yield Simulated(Actors(ledger, clock), world, transport)
        await ledger.close()


class TestSimulatedFleet(InVirtualTime, FleetTransportContract):
    @pytest.fixture
    async def join(self, world: World) -> AsyncIterator[Join]:
        workers = []

        async def join(incarnation: str, lane: str) -> WorkerTransport:
            workers.append(await join_broker(world, NO_LEDGER, incarnation, lane))
            return workers[-1]

        yield join
        for worker in workers:
            await worker.close()

    @pytest.fixture
    async def inbox(self, world: World) -> AsyncIterator[Inbox]:
        yield SimInbox(world)
