"""What people and programs read: rows of the ledger as messages."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

from planrun.core.history import ENDS
from planrun.core.keeping import Owed
from planrun.core.life import Outcome, Reason, State
from planrun.core.messages import AttemptRow, Checkpoint, EventRow, Failure, JobRow, Lease
from planrun.ledger.tx import Row, Tx, load, one
from planrun.ledger.verbs.requests import job_of_request, shown_state

VAIN_TRIES = 3
_PLAIN = (
    "job_id", "namespace", "kind", "version", "key", "attempt", "failures", "max_attempts", "losses", "max_losses",
    "handbacks", "max_handbacks", "priority", "token", "incarnation", "worker", "lease_until_ms", "not_before_ms",
    "fraction", "message", "began_fraction", "began_at_ms", "retry_of", "created_at_ms", "ended_at_ms",
    "deadline_at_ms",
)  # fmt: skip


_OPEN = {"outcome": None, "error": None, "ended_at_ms": None}


def job(tx: Tx, namespace: str | None, job_id: str) -> JobRow | None:
    """One job by its id, or by a request id that led to it."""
    row = one(tx, "job_row", job_id=job_id, namespace=namespace)
    if row is None:
        asked = job_of_request(tx, namespace, job_id)
        row = one(tx, "job_row", job_id=asked, namespace=namespace) if asked is not None else None
    return job_row(row) if row is not None else None


def attempts(tx: Tx, job_id: str) -> list[AttemptRow]:
    """Every attempt of a job, in order. How the last one of a closing job ended is not said yet."""
    unsaid = _unsaid_attempt(tx, job_id)
    return [
        AttemptRow(
            **{
                **row,
                "outcome": Outcome(row["outcome"]) if row["outcome"] else None,
                "error": load(row["error"], Failure),
                "stopped": bool(row["stopped"]),
                "collected": bool(row["collected"]),
                **(_OPEN if row["attempt"] == unsaid else {}),
            }
        )
        for row in tx.rows("attempts", job_id=job_id)
    ]


def events(tx: Tx, job_id: str) -> list[EventRow]:
    """The history of a job, in order; of a closing one without its end, and what came after that."""
    unsaid = _unsaid_attempt(tx, job_id)
    rows = [EventRow(**row) for row in tx.rows("events", job_id=job_id)]
    return list(takewhile(lambda row: not (row.attempt == unsaid and row.what in ENDS), rows)) if unsaid else rows


def _unsaid_attempt(tx: Tx, job_id: str) -> int | None:
    """The attempt at which a closing job ended; None: everything may be said."""
    job = one(tx, "job_state", job_id=job_id)
    return job["attempt"] if job is not None and job["closing"] else None


def held(tx: Tx, incarnation: str) -> list[Lease]:
    """The leases that a worker has now."""
    return [Lease(**row) for row in tx.rows("held", incarnation=incarnation)]


def counts(tx: Tx, namespace: str | None) -> dict[str, int]:
    """Jobs per state; every state is named."""
    found = {row["state"]: row["jobs"] for row in tx.rows("counts", namespace=namespace)}
    return {state.value: found.get(state.value, 0) for state in State}


def ended(tx: Tx, since_ms: int) -> dict[str, int]:
    """Jobs that ended since then (wall clock), per state."""
    return {row["state"]: row["jobs"] for row in tx.rows("ended", since_ms=since_ms)}


def job_ids(tx: Tx, namespace: str | None, prefix: str, limit: int) -> list[str]:
    """The ids that begin like this, in order."""
    return [row["job_id"] for row in tx.rows("job_ids", namespace=namespace, prefix=prefix, limit=limit)]


def owed(tx: Tx) -> Owed | None:
    """Answers that are sent in vain: a receiver that was only started anew takes the second or third try."""
    row = one(tx, "owed", tries_min=VAIN_TRIES)
    return None if row is None else Owed(**row)


def violations(tx: Tx) -> list[str]:
    """Broken invariants, in words."""
    return [row["text"] for row in tx.rows("violations", now_ms=tx.now.boot_ms)]


def job_row(row: Row) -> JobRow:
    checkpoints: list[Checkpoint] = load(row["checkpoint"], list[Checkpoint])
    closing = bool(row["closing"])
    return JobRow(
        **{name: row[name] for name in _PLAIN if not (closing and name == "ended_at_ms")},
        state=shown_state(row),
        reason=Reason(row["reason"]) if row["reason"] and not closing else None,
        needs=load(row["needs"], tuple[str, ...]),
        inputs=load(row["inputs"], dict[str, str]),
        params=load(row["params"], dict[str, Any]),
        checkpoint=checkpoints[0] if checkpoints else None,
        undelivered=row.get("undelivered", 0),
        stopping=bool(row["stopping"]) and not closing,
        closing=closing,
    )
