"""An old process that has the ledger open while a newer planrun upgrades it."""

from __future__ import annotations

from planrun.core.errors import LedgerUnusable
from planrun.ledger.tx import Tx, one

SCHEMA_MIN = "schema_min"  # in meta: who knows no schema as new as this takes no work in and starts none


def refuse_outdated(tx: Tx) -> None:
    """Asked in the transaction that would take a job in, or start one.

    Raises:
        LedgerUnusable: The ledger was upgraded to something that this planrun does not know. Nothing was done.
    """
    least = one(tx, "meta", k=SCHEMA_MIN)
    if least is not None and least["v"] > tx.schema:
        raise LedgerUnusable(
            f"the ledger was upgraded to schema {least['v']} while this process had it open, and this planrun knows "
            f"{tx.schema} only: restart it with the new planrun; nothing was done, and what runs may end"
        )
