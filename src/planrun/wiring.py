"""The only module that names concrete backends."""

from __future__ import annotations

from planrun.clock import Clock, SystemClock
from planrun.config import place_of
from planrun.ledger.contract import Ledger
from planrun.ledger.sqlite.ledger import WAIT_S, SqliteLedger


def open_ledger(url: str, *, clock: Clock | None = None, wait_s: float = WAIT_S) -> Ledger:
    """Open the ledger at an address, creating it if there is none.

    Args:
        wait_s: How long a write may wait for its turn before it is answered with LedgerBusy.

    Raises:
        Invalid: Not an address.
        LedgerUnusable: The file must not be opened here; the text says why.
    """
    return SqliteLedger(place_of(url), clock or SystemClock.open_system(), wait_s=wait_s)
