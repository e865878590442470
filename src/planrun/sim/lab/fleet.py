"""The lab as a fleet: the orchestrator on a machine of its own, and workers that ask it over the simulated network.

Below HTTP all of it is the shipped code: the remote ledger with what it asks again, the fleet's ledger and its duties.
There is no broker: workers take jobs and renew by asking.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import httpx2
import msgspec

from planrun.client import AsyncClient
from planrun.clock import Clock
from planrun.config import Place, file_of
from planrun.core.errors import PlanrunError
from planrun.core.problems import Problem
from planrun.ledger.contract import Ledger
from planrun.ledger.wire import BOOT_HEADER, PROTOCOL, PROTOCOL_HEADER, VERBS, Poll, arguments_of
from planrun.lockfile import WorkerLock
from planrun.orchestrator.duties import Duties
from planrun.orchestrator.fleet import fleet_duties
from planrun.orchestrator.outbox import Outbox
from planrun.orchestrator.publisher import Publisher
from planrun.orchestrator.sweeper import Sweeper
from planrun.sim.actor import Actor, Hardware
from planrun.sim.jobs import KINDS, SimPool
from planrun.sim.lab.history import What
from planrun.sim.lab.stage import LabWorker
from planrun.sim.machines import App, Machine, Sender
from planrun.sim.net import NoReply, NoWay
from planrun.sim.world import World
from planrun.wiring import open_fleet_ledger, open_ledger, open_transport
from planrun.wiring.ground import Ground
from planrun.wiring.worker import Post, man
from planrun.worker.catalog import Catalog
from planrun.worker.gates import Gates

HUB = "orchestrator"
URL = f"http://{HUB}"
RENEW = "/v1/ledger/renew"
WAIT_S = 15.0


class Hub(Machine):
    """The orchestrator: owns the ledger's file, and answers what is asked over the network."""

    def __init__(self, world: World, hardware: Hardware) -> None:
        super().__init__(world, HUB, hardware)
        self._ledger: Ledger | None = None
        self._versions: Counter[str | None] = Counter()  # of each subject: how often it has changed

    async def main(self, actor: Actor) -> None:
        world, clock = self.world, self.clock()
        ledger = open_fleet_ledger(world.url, clock=clock, hands=world.disk.hands(actor))
        world.opened.append(ledger)
        self._ledger = ledger
        await ledger.say_offering(goes_on=None)
        expiry, more = fleet_duties(ledger, None, clock)
        outbox = Outbox(
            ledger,
            clock,
            publisher=Publisher(ledger, world.store, file_of(world.url).public),
            environment={},
            webhook_secret="",
            webhooks=Sender(world, self),
        )
        sweeper = Sweeper(ledger, expiry=expiry, proof_of_death=False)
        await Duties(ledger, clock, sweeper=sweeper, outbox=outbox, more=more).run(asyncio.Event())

    def committed(self, about: Iterable[str] | None) -> None:
        """What has changed; None: anything may have."""
        names = [*self._versions] if about is None else [*about]
        self._versions.update([*names, None])

    async def answer(self, path: str, content: bytes) -> tuple[int, bytes, dict[str, str]]:
        """Status, body and headers of a reply."""
        verb = VERBS[path.rpartition("/")[2]]
        asked = msgspec.json.decode(content, type=verb.asked)
        assert self._ledger is not None
        try:
            if isinstance(asked, Poll):
                answer: object = await self._poll(asked)
            else:
                answer = await getattr(self._ledger, verb.name)(**arguments_of(asked))
        except PlanrunError as error:
            problem = Problem(type=error.slug, title=error.slug, status=503, detail=str(error))
            return 503, msgspec.json.encode(problem), {PROTOCOL_HEADER: str(PROTOCOL)}
        told = {PROTOCOL_HEADER: str(PROTOCOL), BOOT_HEADER: str(self.clock().boot_ms())}
        return 200, msgspec.json.encode(answer), told

    async def _poll(self, poll: Poll) -> str:
        assert self._ledger is not None
        await self._ledger.changed(timeout_s=0, about=poll.about)
        if str(self._versions[poll.about]) == poll.seen:
            await self._ledger.changed(timeout_s=poll.timeout_s, about=poll.about)
        return str(self._versions[poll.about])


class Wire(httpx2.AsyncBaseTransport):
    """HTTP over the simulated network."""

    def __init__(self, world: World, name: str, on_silence: Callable[[], None]) -> None:
        """
        Args:
            on_silence: Called when a renewal is sent that nobody will hear.
        """
        self._world = world
        self._name = name
        self._on_silence = on_silence

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        world, path = self._world, request.url.path
        hub = world.machines[HUB]
        assert isinstance(hub, Hub)
        if path == RENEW and world.net.is_cut(self._name, HUB):
            self._on_silence()
        patience_s = request.extensions["timeout"]["read"]
        try:
            status, body, headers = await world.net.ask(
                self._name,
                HUB,
                path,
                lambda: hub.actor,
                partial(hub.answer, path, request.content),
                patience_s=patience_s,
            )
        except NoWay as error:
            raise httpx2.ConnectError(str(error)) from None
        except NoReply as error:
            raise httpx2.ReadTimeout(str(error)) from None
        return httpx2.Response(status, content=body, headers=headers)


def open_remote(wire: Wire, clock: Clock) -> Ledger:
    """The orchestrator's ledger, at the end of such a wire."""
    return open_ledger(URL, clock=clock, wait_s=WAIT_S, wire=wire)


class FleetApp(App):
    """The application, which asks the orchestrator, too."""

    async def main(self, actor: Actor) -> None:
        world, clock = self.world, self.clock()
        ledger = open_remote(Wire(world, self.name, lambda: None), clock)
        client = AsyncClient.over(ledger, world.store, url=URL, clock=clock)
        async with asyncio.TaskGroup() as tasks:
            for order in world.settings.orders:
                tasks.create_task(self._follow(client, order))
        await asyncio.Event().wait()


class FleetWorker(LabWorker):
    """A worker on a machine of its own."""

    async def work(self, actor: Actor) -> None:
        world, clock = self.world, self.clock()
        place = Place(Path(world.folder, self.name, "planrun.db"), url=URL)
        wire = Wire(world, self.name, lambda: self._tell(self.lane, What.UNHEARD))
        ledger = open_remote(wire, clock)
        lock = WorkerLock.acquire(place.workers, clock.new_id())
        row = self.row(lock, lock_file="")
        gates = Gates(
            scratch=place.scratch, store=None, incarnation=lock.path.name, slots=row.slots, disk_free_bytes_min=0
        )
        actor.at_crash += [gates.close, lambda: os.close(lock.fd)]
        post = Post(
            place=place,
            clock=clock,
            ground=Ground(ledger, world.store),
            lock=lock,
            row=row,
            catalog=Catalog(KINDS, row.handlers, ()),
            scratch=place.scratch,
            gates=gates,
            processes=SimPool(world.start_s, world.settings.deed_of, world.bytes_of),
            transport=open_transport(ledger, clock, row),
            clear=lambda incarnation: None,
            environment={},
        )
        try:
            async with man(post, self.options()) as self.supervisor:
                await self.supervisor.serve()
        finally:
            self.supervisor = None
