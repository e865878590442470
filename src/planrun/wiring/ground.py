"""What a worker stands on: a ledger and a store, on this box or of a fleet."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from planrun.clock import Clock
from planrun.config import place_of
from planrun.ledger.contract import Ledger
from planrun.lockfile import hold_ledger
from planrun.storage.contract import Store
from planrun.wiring import folder_of, join_fleet, open_ledger, open_shared_store, open_store


@dataclass(frozen=True, slots=True)
class Ground:
    """What a worker stands on.

    Attributes:
        store_folder: Where the store is on this box; None: elsewhere.
        store_url, broker, broker_prefix: As in `Fleet`.
    """

    ledger: Ledger
    store: Store
    store_folder: Path | None
    store_url: str = ""
    broker: str = ""
    broker_prefix: str = ""


@asynccontextmanager
async def open_ground(url: str, clock: Clock) -> AsyncIterator[Ground]:
    """The ledger's file, which no orchestrator owns; or an orchestrator's ledger, and the store that it names.

    Raises:
        Invalid: Not an address.
        LedgerUnavailable: The orchestrator does not answer.
        LedgerUnusable: The file must not be opened here, an orchestrator owns it, or it does not serve this caller.
    """
    place = place_of(url)
    if place.is_remote:
        ledger = open_ledger(url, clock=clock)
        try:
            fleet = await join_fleet(ledger)
            store = open_shared_store(fleet.store)
            yield Ground(ledger, store, folder_of(fleet.store), fleet.store, fleet.broker, fleet.broker_prefix)
        finally:
            await ledger.close()
        return
    hold = hold_ledger(place.alone, alone=False)
    try:
        ledger = open_ledger(url, clock=clock)
        try:
            yield Ground(ledger, open_store(url), place.store)
        finally:
            await ledger.close()
    finally:
        os.close(hold)
