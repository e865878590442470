"""Pause and resume: what an operator holds back, and lets go again."""

from __future__ import annotations

from typing import Any

from planrun.core.pauses import Pause, PauseRequest
from planrun.ledger.tx import Tx


def pause(tx: Tx, request: PauseRequest) -> bool:
    """Hold a set of jobs back; False: it was held back before."""
    return bool(tx.rows("insert_pause", **_values(tx, request)))


def resume(tx: Tx, request: PauseRequest) -> bool:
    """Let a set of jobs go again; False: exactly this set was not held back."""
    return bool(tx.rows("resume", **_values(tx, request)))


def pauses(tx: Tx, limit: int) -> list[Pause]:
    """The newest pauses, past ones included."""
    return [Pause(**row) for row in tx.rows("pauses", limit=limit)]


def open_pauses(tx: Tx) -> list[Pause]:
    """The pauses that are in force."""
    return [Pause(**row) for row in tx.rows("open_pauses")]


def _values(tx: Tx, request: PauseRequest) -> dict[str, Any]:
    return {
        "namespace": request.namespace,
        "kind": request.kind,
        "who": request.who,
        "why": request.why,
        "wall_ms": tx.now.wall_ms,
    }
