"""What a worker stands on: a ledger and a store, on this box or of a fleet."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from planrun.clock import Clock
from planrun.config import broker_from, place_of, store_from
from planrun.core.errors import LedgerUnusable
from planrun.ledger.contract import Ledger
from planrun.lockfile import hold_ledger
from planrun.storage.contract import Store
from planrun.wiring import chronicle_of, hands_for, join_fleet, open_ledger, open_shared_store, open_store, touch_store


@dataclass(frozen=True, slots=True)
class Ground:
    """What a worker stands on.

    Attributes:
        store_url: Its address, where it is a bucket's.
        broker, broker_prefix, lease_s: As in `Fleet`; None: it is not one.
    """

    ledger: Ledger
    store: Store
    store_url: str = ""
    broker: str = ""
    broker_prefix: str = ""
    lease_s: float | None = None


@asynccontextmanager
async def open_ground(url: str, given: str, clock: Clock, *, slots: int = 1) -> AsyncIterator[Ground]:
    """The ledger's file, which no orchestrator owns; or an orchestrator's ledger, and the store that it names.

    Args:
        given: Where this worker was told that results go; empty: nowhere.
        slots: Jobs that run at a time.

    Raises:
        Invalid: Not an address, or the ledger's results go elsewhere.
        StorageError: The store refuses what a worker wants to do there.
        LedgerUnavailable: The orchestrator does not answer.
        LedgerUnusable: The file must not be opened here, an orchestrator owns it, or it does not serve this caller.
    """
    place = place_of(url)
    if place.is_remote:
        ledger = open_ledger(url, clock=clock)
        try:
            fleet = await join_fleet(ledger)
            store_url = store_from(given) or fleet.store
            store = open_shared_store(store_url, fleet.store_access)
            await touch_store(store)
            broker = broker_from(fleet.broker)
            yield Ground(ledger, store, store_url, broker, fleet.broker_prefix, fleet.lease_s)
        finally:
            await ledger.close()
        return
    hold = hold_ledger(place.alone, alone=False)
    try:
        store = open_store(url, given, settle=True)
        await touch_store(store)
        ledger = open_ledger(url, clock=clock, hands=hands_for(slots))
        try:
            if (await chronicle_of(ledger).history()).strict:
                raise LedgerUnusable(
                    f"the answers of {place.ledger} are said by an orchestrator alone, once they stand in the store: "
                    "start `planrun orchestrator`, and this worker with --url http://HOST:PORT"
                )
            yield Ground(ledger, store)
        finally:
            await ledger.close()
    finally:
        os.close(hold)
