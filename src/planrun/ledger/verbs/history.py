"""The permanent history of a job: one line for everything that happened to it."""

from __future__ import annotations

from planrun.core.history import What
from planrun.ledger.tx import Tx


def note(tx: Tx, job_id: str, what: What, *, attempt: int | None = None, who: str = "", detail: str = "") -> None:
    """Add a line, in the transaction of the change that it tells of, and wake those who wait for the job."""
    tx.about.add(job_id)
    tx.rows("insert_event", job_id=job_id, wall_ms=tx.now.wall_ms, what=what, attempt=attempt, who=who, detail=detail)
