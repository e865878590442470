"""Everything that one orchestrator process is made of."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from planrun.clock import Clock, SystemClock
from planrun.config import Place, place_of
from planrun.core.errors import Invalid
from planrun.core.fleet import Fleet
from planrun.core.keeping import Keep
from planrun.ledger.fleet import FleetLedger
from planrun.lockfile import hold_ledger
from planrun.orchestrator.archive import Archive
from planrun.orchestrator.collector import Collector
from planrun.orchestrator.duties import Duties
from planrun.orchestrator.fleet import fleet_duties
from planrun.orchestrator.options import OrchestratorOptions
from planrun.orchestrator.outbox import Outbox
from planrun.orchestrator.publisher import Publisher
from planrun.orchestrator.retention import Retention
from planrun.orchestrator.sweeper import Sweeper
from planrun.storage.contract import Store
from planrun.transport.contract import FleetTransport
from planrun.wiring import (
    chronicle_of,
    open_fleet_ledger,
    open_fleet_transport,
    open_shared_store,
    store_address,
    touch_store,
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

    async def run(self, stop: asyncio.Event) -> None:
        """Do what is to be done until `stop` is set."""
        await self.duties.run(stop)


@asynccontextmanager
async def open_orchestrator(url: str, options: OrchestratorOptions) -> AsyncIterator[Orchestrator]:
    """Open a ledger for a fleet, and nobody else works on it meanwhile.

    Raises:
        Invalid: An option that cannot be right.
        StorageError: The store refuses what an orchestrator wants to do there.
        LedgerUnusable: The file must not be opened here, or a worker or another orchestrator has it; names it.
    """
    place = place_of(url)
    if place.is_remote:
        raise Invalid(f"{url}: that is an orchestrator's address; name its ledger: sqlite:///path/to/file.db")
    place.ledger.parent.mkdir(parents=True, exist_ok=True)
    hold = hold_ledger(place.alone, alone=True)
    try:
        clock = SystemClock.open_system()
        ledger = open_fleet_ledger(url, clock=clock, broker_prefix=options.broker_prefix if options.broker else None)
        try:
            fleet = Fleet(
                store=store_address(url, options.store, settle=True),
                broker=options.broker,
                broker_prefix=options.broker_prefix,
                lease_s=options.lease_s,
            )
            store = open_shared_store(fleet.store)
            await touch_store(store)
            async with _open_broker(fleet, ledger, clock) as broker:
                duties = _duties(ledger, store, clock, place, options, broker)
                yield Orchestrator(place, clock, ledger, store, fleet, duties)
        finally:
            await ledger.close()
    finally:
        os.close(hold)


@asynccontextmanager
async def _open_broker(fleet: Fleet, ledger: FleetLedger, clock: Clock) -> AsyncIterator[FleetTransport | None]:
    """The orchestrator's end of the fleet's broker; None: it has none."""
    if not fleet.broker:
        yield None
        return
    generation = (await chronicle_of(ledger).history()).generation
    broker = open_fleet_transport(clock, broker=fleet.broker, broker_prefix=fleet.broker_prefix, generation=generation)
    try:
        yield broker
    finally:
        await broker.close()


def _duties(
    ledger: FleetLedger,
    store: Store,
    clock: Clock,
    place: Place,
    options: OrchestratorOptions,
    broker: FleetTransport | None,
) -> Duties:
    expiry, more = fleet_duties(ledger, broker, clock)
    return Duties(
        ledger,
        clock,
        # Workers are on other machines: no lock proves anything here.
        sweeper=Sweeper(ledger, expiry=expiry, proof_of_death=False),
        outbox=Outbox(
            ledger,
            clock,
            publisher=Publisher(ledger, store, place.public),
            environment=os.environ,
            webhook_secret=os.environ.get(WEBHOOK_SECRET_VARIABLE, ""),
            webhooks_allowed=options.webhooks_allowed,
            broker=broker,
        ),
        collector=Collector(ledger, store, scratch=place.scratch, gc_grace_s=options.gc_grace_s),
        retention=Retention(
            ledger,
            Archive(place.archive),
            keep=Keep(job_ttl_s=options.job_ttl_s, ids_ttl_s=options.ids_ttl_s),
            logs=place.logs,
        ),
        more=more,
    )
