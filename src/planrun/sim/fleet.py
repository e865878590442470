"""A fleet in a simulated world: an orchestrator that owns the ledger, and whoever reaches it over the network alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import httpx2
import msgspec

from planrun.core.errors import Conflict, LedgerBusy, PlanrunError
from planrun.core.fleet import Fleet
from planrun.core.problems import Problem
from planrun.ledger.contract import Ledger
from planrun.ledger.wire import (
    BOOT_HEADER,
    GENERATION_HEADER,
    POLL_S_MAX,
    PROTOCOL,
    PROTOCOL_HEADER,
    VERBS,
    Poll,
    arguments_of,
)
from planrun.orchestrator.options import OrchestratorOptions
from planrun.sim.actor import Actor, Hardware
from planrun.sim.clock import SimClock
from planrun.sim.ends import FleetEnd
from planrun.sim.machines import Machine, Sender
from planrun.sim.net import NoReply, NoWay
from planrun.transport.contract import FleetTransport
from planrun.wiring import open_fleet_ledger
from planrun.wiring.orchestrator import Orchestrator, Seat, govern

if TYPE_CHECKING:
    from planrun.sim.world import World

ADDRESS = "http://orchestrator:8470"
WARM_S = 30.0

Reply = tuple[int, dict[str, str], bytes]


class Hub(Machine):
    """The orchestrator's machine.

    Attributes:
        recovers: It is started with `--recover`, until it serves.
        disk, url, place: Of its own ledger.
    """

    recovers = False

    def __init__(self, world: World, name: str, hardware: Hardware) -> None:
        super().__init__(world, name, hardware)
        self.disk, self.url, self.place = world.disk, world.url, world.place
        self._serving: Serving | None = None

    async def main(self, actor: Actor) -> None:
        world, clock = self.world, self.clock()
        settings = world.settings
        ledger = open_fleet_ledger(
            self.url, clock=clock, broker_prefix="pr", warm_after_s=WARM_S, hands=self.disk.hands(actor)
        )
        world.opened.append(ledger)

        @asynccontextmanager
        async def open_broker(generation: int) -> AsyncIterator[FleetTransport]:
            end = FleetEnd(world, self, actor, generation=generation)
            yield end
            await end.close()

        seat = Seat(
            place=self.place,
            clock=clock,
            ledger=ledger,
            store=world.store,
            fleet=Fleet(store="sim", broker="sim", lease_s=settings.lease_s),
            creates_once=settings.strict and world.store.honours_absent,
            open_broker=open_broker,
            environment={},
            webhooks=Sender(world, self),
        )
        options = OrchestratorOptions(
            broker="amqp://sim", lease_s=settings.lease_s, gc_grace_s=settings.gc_grace_s, recover=self.recovers
        )
        async with govern(seat, options) as orchestrator:
            world.say(self.name, f"serves generation {orchestrator.generations.number}")
            self.recovers = False
            self._serving = Serving(orchestrator, ledger, clock, name=clock.new_id()[:8])
            ledger.watch(self._serving.changed)
            await orchestrator.run(asyncio.Event())

    def crash(self) -> None:
        self._serving = None
        super().crash()

    def host(self) -> Actor | None:
        """The process that answers; None: nobody listens there."""
        return None if self._serving is None else self.actor

    async def serve(self, verb: str, content: bytes, met: str) -> Reply:
        """One question, as it arrives."""
        assert self._serving is not None
        return await self._serving.answer(verb, content, met)


class Serving:
    """What the HTTP server of an orchestrator does, without HTTP."""

    def __init__(self, orchestrator: Orchestrator, ledger: Ledger, clock: SimClock, *, name: str) -> None:
        self._orchestrator = orchestrator
        self._ledger = ledger
        self._clock = clock
        self._name = name
        self._number = 0
        self._last: dict[str, int] = {}
        self._all = 0  # the last commit of which nobody knows what it was about
        self._changed = asyncio.Event()

    def changed(self, about: frozenset[str] | None) -> None:
        """Something was committed."""
        self._number += 1
        if about is None:
            self._all = self._number
        else:
            self._last.update(dict.fromkeys(about, self._number))
        self._changed.set()
        self._changed = asyncio.Event()

    async def answer(self, name: str, content: bytes, met: str) -> Reply:
        """One verb."""
        headers = {
            PROTOCOL_HEADER: str(PROTOCOL),
            GENERATION_HEADER: str(self._orchestrator.generations.number),
        }
        verb = VERBS[name]
        try:
            await self._orchestrator.generations.hear(int(met))
            asked = msgspec.json.decode(content, type=verb.asked)
            if isinstance(asked, Poll):
                said: Any = await self._poll(asked)
            else:
                said = await getattr(self._ledger, name)(**arguments_of(asked))
        except PlanrunError as error:
            return 503, headers, msgspec.json.encode(_problem_of(error))
        headers[BOOT_HEADER] = str(self._clock.boot_ms())
        return 200, headers, msgspec.json.encode(said)

    async def _poll(self, poll: Poll) -> str:
        with suppress(TimeoutError):
            async with asyncio.timeout(min(poll.timeout_s, POLL_S_MAX)):
                while self._version(poll.about) == poll.seen:
                    await self._changed.wait()
        return self._version(poll.about)

    def _version(self, about: str | None) -> str:
        number = self._number if about is None else max(self._all, self._last.get(about, 0))
        return f"{self._name}-{number}"


class Wire(httpx2.AsyncBaseTransport):
    """Carries the requests of one machine to the orchestrator."""

    def __init__(self, world: World, machine: Machine) -> None:
        self._world = world
        self._machine = machine

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        hub = self._world.hub
        verb = request.url.path.rpartition("/")[2]
        met = request.headers[GENERATION_HEADER]
        content = await request.aread()
        patience_s = request.extensions["timeout"]["read"]
        try:
            status, said, body = await self._world.net.ask(
                self._machine.name,
                hub.name,
                verb,
                hub.host,
                lambda: hub.serve(verb, content, met),
                patience_s=patience_s,
            )
        except NoWay as error:
            raise httpx2.ConnectError(str(error)) from None
        except NoReply as error:
            raise httpx2.ReadTimeout(str(error)) from None
        return httpx2.Response(status, headers=said, content=body)


def _problem_of(error: PlanrunError) -> Problem:
    return Problem(
        type=error.slug,
        title="as simulated",
        status=503,
        detail=str(error),
        job_id=error.job_id if isinstance(error, Conflict) else None,
        holder_pid=error.holder_pid if isinstance(error, LedgerBusy) else None,
    )
