"""Workers and an application on machines of their own, in a simulated fleet."""

from __future__ import annotations

from planrun.config import Place
from planrun.core.flows import lane_of
from planrun.core.messages import WorkerRow
from planrun.ledger.contract import Ledger
from planrun.sim.actor import Actor
from planrun.sim.clock import SimClock
from planrun.sim.ends import WorkerEnd
from planrun.sim.fleet import ADDRESS, Wire
from planrun.sim.machines import App, Worker
from planrun.sim.settings import Order
from planrun.transport.contract import WorkerTransport
from planrun.wiring import open_ledger


class FleetWorker(Worker):
    """A worker process on a machine of its own."""

    def place(self) -> Place:
        folder = self.world.folder / self.name
        folder.mkdir(exist_ok=True)
        return Place(folder / "remote", url=ADDRESS)

    def open_ledger(self, actor: Actor, clock: SimClock) -> Ledger:
        return open_ledger(ADDRESS, clock=clock, wire=Wire(self.world, self))

    def open_transport(self, actor: Actor, ledger: Ledger, clock: SimClock, row: WorkerRow) -> WorkerTransport:
        return WorkerEnd(self.world, self, actor, ledger, incarnation=row.incarnation, lane=lane_of(row))


class FleetApp(App):
    """An application that reaches the orchestrator over the network."""

    @property
    def url(self) -> str:
        return ADDRESS

    def open_ledger(self, actor: Actor, clock: SimClock) -> Ledger:
        return open_ledger(ADDRESS, clock=clock, wire=Wire(self.world, self))

    def route(self, order: Order, number: int) -> str:
        return f"rabbitmq:{order.name}-{number}" if number % 2 else super().route(order, number)
