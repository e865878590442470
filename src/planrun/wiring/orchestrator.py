"""Everything that one orchestrator process is made of."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from planrun.clock import Clock, SystemClock
from planrun.config import Place, file_of, s3_access_from
from planrun.core.errors import LedgerUnusable
from planrun.core.fleet import Fleet
from planrun.core.keeping import Keep
from planrun.ledger.fleet import FleetLedger
from planrun.lockfile import hold_ledger
from planrun.orchestrator.archive import Archive
from planrun.orchestrator.closer import Closer
from planrun.orchestrator.collector import Collector
from planrun.orchestrator.duties import Duties, Loop
from planrun.orchestrator.fleet import fleet_duties
from planrun.orchestrator.generations import Generations
from planrun.orchestrator.options import OrchestratorOptions
from planrun.orchestrator.outbox import Outbox, Webhooks
from planrun.orchestrator.publisher import Publisher
from planrun.orchestrator.recovery import begin
from planrun.orchestrator.retention import Retention
from planrun.orchestrator.sweeper import Sweeper
from planrun.storage.contract import Store
from planrun.transport.contract import FleetTransport
from planrun.wiring import (
    chronicle_of,
    open_fleet_ledger,
    open_fleet_transport,
    open_shared_store,
    probe_store,
    store_address,
)
from planrun.wiring.worker import WEBHOOK_SECRET_VARIABLE

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Orchestrator:
    """What an orchestrator has open, and does by itself, while its API is served.

    Attributes:
        fleet: What it tells workers that join.
    """

    place: Place
    clock: Clock
    ledger: FleetLedger
    store: Store
    fleet: Fleet
    duties: Duties
    generations: Generations

    async def run(self, stop: asyncio.Event) -> None:
        """Do what is to be done until `stop` is set.

        Raises:
            LedgerUnusable: Another orchestrator has recovered a copy of this ledger, so that this one must end.
        """
        replaced = asyncio.create_task(self.generations.wait_replaced())
        replaced.add_done_callback(lambda _: stop.set())
        await self.duties.run(stop)
        replaced.cancel()
        if self.generations.replaced:
            raise LedgerUnusable(self.generations.replaced)


@asynccontextmanager
async def open_orchestrator(url: str, options: OrchestratorOptions) -> AsyncIterator[Orchestrator]:
    """Open a ledger for a fleet, and nobody else works on it meanwhile.

    Raises:
        Invalid: An option that cannot be right.
        StorageError: The store refuses what an orchestrator wants to do there.
        LedgerUnusable: The file must not be opened here, or a worker or another orchestrator has it; names it.
    """
    place = file_of(url)
    place.ledger.parent.mkdir(parents=True, exist_ok=True)
    hold = hold_ledger(place.alone, alone=True)
    try:
        clock = SystemClock.open_system()
        ledger = open_fleet_ledger(
            url,
            clock=clock,
            broker_prefix=options.broker_prefix if options.broker else None,
            webhooks_allowed=options.webhooks_allowed,
            warm_after_s=options.warm_after_s,
        )
        try:
            fleet = Fleet(
                store=store_address(url, options.store, settle=True),
                store_access=s3_access_from(),
                broker=options.worker_broker or options.broker,
                broker_prefix=options.broker_prefix,
                lease_s=options.lease_s,
            )
            await _declare(ledger, options)
            store = open_shared_store(fleet.store)
            report = await asyncio.to_thread(probe_store, store)
            for problem in report.problems:
                log.warning("%s", problem)
            seat = Seat(
                place=place,
                clock=clock,
                ledger=ledger,
                store=store,
                fleet=fleet,
                creates_once=report.creates_once,
                open_broker=partial(_open_broker, options, clock),
                environment=os.environ,
            )
            async with govern(seat, options) as orchestrator:
                yield orchestrator
        finally:
            await ledger.close()
    finally:
        os.close(hold)


async def _declare(ledger: FleetLedger, options: OrchestratorOptions) -> None:
    """What the operator says of the fleet. Without a word about it, what was said before holds on."""
    if options.machines is not None:
        await ledger.declare(options.machines)
    if not options.broker:
        await ledger.say_offering(goes_on=None)
    for kind, per_s in options.rates.items():
        await ledger.set_rate(kind, per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """All that an orchestrator stands on, open.

    Attributes:
        creates_once: The store lets one of several create an object: answers are written down there first.
        open_broker: The fleet's end of its broker, for a generation of the ledger; gives None where there is none.
        environment: What it says of secrets, and what programs see.
        webhooks: Who sends them; None: over the network.
    """

    place: Place
    clock: Clock
    ledger: FleetLedger
    store: Store
    fleet: Fleet
    creates_once: bool
    open_broker: Callable[[int], AbstractAsyncContextManager[FleetTransport | None]]
    environment: Mapping[str, str]
    webhooks: Webhooks | None = None


@asynccontextmanager
async def govern(seat: Seat, options: OrchestratorOptions) -> AsyncIterator[Orchestrator]:
    """Make sure that it is the right ledger, and put the duties together.

    Raises:
        StorageError: The store does not say.
        LedgerUnusable: It must not be run as it is.
    """
    async with (
        _history(seat, recover=options.recover) as (generations, loops),
        seat.open_broker(generations.number) as broker,
    ):
        duties = _duties(seat, options, broker, loops)
        yield Orchestrator(seat.place, seat.clock, seat.ledger, seat.store, seat.fleet, duties, generations)


@asynccontextmanager
async def _history(seat: Seat, *, recover: bool) -> AsyncIterator[tuple[Generations, list[Loop]]]:
    """Begin: the right copy of the ledger, recovered if need be; and what keeps it so while it is open."""
    chronicle = chronicle_of(seat.ledger)
    generations = Generations(chronicle, seat.store, seat.clock)
    await begin(chronicle, seat.store, generations, recover=recover, strict=seat.creates_once)
    loops = [Loop("say how far the ledger is", generations.tick, on_change=False)]
    closer = Closer(chronicle, seat.store, generations)
    if seat.creates_once:
        loops.append(Loop("write answers down", closer.tick))
    try:
        yield generations, loops
    finally:
        closer.close()
        await generations.close()


@asynccontextmanager
async def _open_broker(
    options: OrchestratorOptions, clock: Clock, generation: int
) -> AsyncIterator[FleetTransport | None]:
    """The orchestrator's end of the fleet's broker; None: it has none."""
    if not options.broker:
        yield None
        return
    broker = open_fleet_transport(
        clock, broker=options.broker, broker_prefix=options.broker_prefix, generation=generation
    )
    try:
        yield broker
    finally:
        await broker.close()


def _duties(seat: Seat, options: OrchestratorOptions, broker: FleetTransport | None, loops: Sequence[Loop]) -> Duties:
    place, clock, ledger, store = seat.place, seat.clock, seat.ledger, seat.store
    expiry, more = fleet_duties(ledger, broker, clock)
    return Duties(
        ledger,
        clock,
        # Workers are on other machines: no lock proves anything here.
        sweeper=Sweeper(ledger, expiry=expiry, proof_of_death=False, warm_after_ms=round(options.warm_after_s * 1000)),
        outbox=Outbox(
            ledger,
            clock,
            publisher=Publisher(ledger, store, place.public),
            environment=seat.environment,
            webhook_secret=seat.environment.get(WEBHOOK_SECRET_VARIABLE, ""),
            webhooks_allowed=options.webhooks_allowed,
            webhooks=seat.webhooks,
            broker=broker,
        ),
        collector=Collector(ledger, store, scratch=place.scratch, gc_grace_s=options.gc_grace_s),
        retention=Retention(
            ledger,
            store,
            Archive(place.archive),
            keep=Keep(job_ttl_s=options.job_ttl_s, ids_ttl_s=options.ids_ttl_s),
            logs=place.logs,
        ),
        more=(*more, *loops),
    )
