"""From the end of a job to its answer: nobody gets it before its manifest stands in the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planrun.core.history import What
from planrun.core.life import Outcome, State
from planrun.core.manifests import Closing, Manifest, Subscriber
from planrun.core.messages import Failure, Result
from planrun.ledger.tx import Row, Tx, dump, load, one
from planrun.ledger.verbs.answers import owe_answer, stored_result
from planrun.ledger.verbs.history import note
from planrun.ledger.verbs.recovering import history
from planrun.ledger.verbs.retention import is_forgotten

ELSEWHERE = Failure(message="the job ended in another history of this ledger", code="lost")


def closing(tx: Tx, *, limit: int, after: int) -> Closing:
    """Jobs whose answer has not been said, and how far the ledger has counted with them."""
    known = history(tx)
    rows = tx.rows("closing", limit=limit, after=after)
    manifests = tuple(_manifest(tx, row["job_id"]) for row in rows)
    last = rows[-1]["id"] if len(rows) == limit else 0
    return Closing(generation=known.generation, n=known.n, manifests=manifests, last=last)


def adopt(tx: Tx, manifests: Sequence[Manifest]) -> int:
    """What stands in the store is the answer."""
    return sum(_adopt(tx, manifest) for manifest in manifests)


def unadopted(tx: Tx, job_ids: Sequence[str]) -> list[str]:
    """Those of the jobs that have not been closed here."""
    return [row["job_id"] for row in tx.rows("unadopted", job_ids=dump(job_ids))]


def _adopt(tx: Tx, manifest: Manifest) -> bool:
    result = manifest.result
    job = one(tx, "job_state", job_id=result.job_id) or _write_down(tx, manifest)
    if job is None or (job["ended_at_ms"] is not None and not job["closing"]):
        return False  # in the archive, forgotten, or said long ago
    if job["ended_at_ms"] is None:
        job = _end_elsewhere(tx, job, result)
    if stored_result(tx, result.job_id) == result:
        tx.rows("close_job", job_id=result.job_id, attempt=job["attempt"])
    else:
        _replace(tx, job, manifest)
        for subscriber in manifest.subscribers:
            tx.rows("insert_subscriber", job_id=result.job_id, route=subscriber.route, seq=subscriber.seq)
    tx.about.add(result.job_id)
    owe_answer(tx, result.job_id)
    return True


def _write_down(tx: Tx, manifest: Manifest) -> Row | None:
    result = manifest.result
    if is_forgotten(tx, result) or one(tx, "find_archived", job_id=result.job_id, namespace=None) is not None:
        return None
    tx.rows(
        "insert_known",
        job_id=result.job_id,
        namespace=result.namespace,
        kind=result.kind,
        version=result.version,
        inputs=dump(manifest.inputs),
        params=dump(manifest.params),
        needs=dump(manifest.needs),
        content_hash=manifest.content_hash,
        key=result.key,
        retry_of=manifest.retry_of,
        priority=manifest.priority,
        attempt=result.attempt,
        created_at_ms=manifest.created_at_ms,
        request_id=manifest.request_id,
        request_hash=manifest.request_hash,
    )
    return one(tx, "job_state", job_id=result.job_id)


def _end_elsewhere(tx: Tx, job: Row, result: Result) -> Row:
    """End what is open here, so that it can be replaced. Whoever runs it now hears that its lease is lost."""
    fence = {"job_id": job["job_id"], "attempt": job["attempt"]}
    if job["token"] is not None and job["token"] != result.token:
        said = {"outcome": Outcome.LOST, "error": dump(ELSEWHERE), "wall_ms": tx.now.wall_ms, "stopped": 0}
        tx.rows("end_attempt", **fence, token=job["token"], **said)
    ended = tx.rows("end_elsewhere", **fence, won_attempt=result.attempt, ended_at_ms=result.ended_at_ms)
    assert ended, "the row changed inside its own transaction"
    empty: dict[str, Any] = {"outputs": "[]", "value": None, "error": dump(ELSEWHERE), "token": None}
    tx.rows("insert_result", job_id=job["job_id"], attempt=result.attempt, status=State.CANCELED, **empty)
    return {**job, "attempt": ended[0]["attempt"]}


def _replace(tx: Tx, job: Row, manifest: Manifest) -> None:
    result = manifest.result
    if result.token is not None and manifest.outcome is not None:
        won = {"job_id": result.job_id, "attempt": result.attempt, "token": result.token, "outcome": manifest.outcome}
        error = dump(result.error) if result.error is not None else None
        tx.rows("end_attempt", **won, error=error, wall_ms=result.ended_at_ms, stopped=0)
        tx.rows("insert_winner", **won, ended_at_ms=result.ended_at_ms)
    tx.rows(
        "adopt_result",
        job_id=result.job_id,
        won_attempt=result.attempt,
        won_token=result.token,
        state=result.state,
        outputs=dump(result.outputs),
        value=dump(result.value) if result.value is not None else None,
        error=dump(result.error) if result.error is not None else None,
    )
    tx.rows(
        "adopt_end",
        job_id=result.job_id,
        attempt=job["attempt"],
        state=result.state,
        reason=result.reason,
        ended_at_ms=result.ended_at_ms,
    )
    detail = f"{result.state} at attempt {result.attempt}, as another history of this ledger had said"
    note(tx, result.job_id, What.ADOPTED, attempt=result.attempt, detail=detail)


def _manifest(tx: Tx, job_id: str) -> Manifest:
    row = one(tx, "manifest", job_id=job_id)
    result = stored_result(tx, job_id)
    assert row is not None, "a job ended without a result"
    assert result is not None, "a job ended without a result"
    return Manifest(
        result=result,
        outcome=Outcome(row["outcome"]) if row["outcome"] else None,
        inputs=load(row["inputs"], dict[str, str]),
        params=load(row["params"], dict[str, Any]),
        needs=load(row["needs"], tuple[str, ...]),
        content_hash=row["content_hash"],
        retry_of=row["retry_of"],
        priority=row["priority"],
        created_at_ms=row["created_at_ms"],
        request_id=row["request_id"],
        request_hash=row["request_hash"],
        subscribers=tuple(Subscriber(**each) for each in tx.rows("subscribers", job_id=job_id)),
    )
