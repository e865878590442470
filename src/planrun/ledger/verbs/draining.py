"""Drain and undo: workers that an operator lets run empty."""

from __future__ import annotations

from planrun.core.drains import Drain, DrainRequest
from planrun.ledger.tx import Tx, one


def drain(tx: Tx, request: DrainRequest) -> list[str]:
    """Let these workers take no more work. Returns the incarnations of those that took some until now."""
    drained = []
    for incarnation in request.incarnations:
        found = one(tx, "drain", incarnation=incarnation)
        if found is not None:
            tx.rows(
                "insert_drain",
                incarnation=incarnation,
                worker=found["name"],
                wall_ms=tx.now.wall_ms,
                who=request.who,
                why=request.why,
            )
            tx.about.add(incarnation)
            drained.append(incarnation)
    return drained


def undrain(tx: Tx, request: DrainRequest) -> list[str]:
    """Let these workers take work again. Returns the incarnations of those that were drained and have not gone."""
    freed = []
    for incarnation in request.incarnations:
        if one(tx, "undrain", incarnation=incarnation) is not None:
            end_drain(tx, incarnation, undone=True, who=request.who, why=request.why)
            tx.about.add(incarnation)
            freed.append(incarnation)
    return freed


def end_drain(tx: Tx, incarnation: str, *, undone: bool = False, who: str = "", why: str = "") -> None:
    """It is over; nothing happens if there was none."""
    tx.rows("end_drain", incarnation=incarnation, wall_ms=tx.now.wall_ms, undone=undone, who=who, why=why)


def drains(tx: Tx, limit: int) -> list[Drain]:
    """The newest drains, past ones included."""
    return [Drain(**{**row, "undone": bool(row["undone"])}) for row in tx.rows("drains", limit=limit)]
