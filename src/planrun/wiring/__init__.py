"""The only place that names concrete backends. `worker` is apart, so that a client loads none of it."""

from __future__ import annotations

from planrun.clock import Clock, SystemClock
from planrun.config import place_of
from planrun.ledger.contract import Ledger
from planrun.ledger.sqlite.facts import LedgerFacts, facts_of
from planrun.ledger.sqlite.ledger import WAIT_S, SqliteLedger
from planrun.storage.contract import Store
from planrun.storage.filesystem import FilesystemStore


def open_ledger(url: str, *, clock: Clock | None = None, wait_s: float = WAIT_S) -> Ledger:
    """Open the ledger at an address, creating it if there is none.

    Args:
        wait_s: How long a write may wait for its turn before it is answered with LedgerBusy.

    Raises:
        Invalid: Not an address.
        LedgerUnusable: The file must not be opened here; the text says why.
    """
    return SqliteLedger(place_of(url), clock or SystemClock.open_system(), wait_s=wait_s)


def open_store(url: str) -> Store:
    """Open the store that belongs to the ledger at an address."""
    return FilesystemStore(place_of(url).store)


def ledger_facts(url: str) -> LedgerFacts:
    """Engine, schema and size of an existing ledger.

    Raises:
        Invalid: Not an address.
        LedgerUnusable: The file must not be opened here; the text says why.
    """
    return facts_of(place_of(url).ledger)
