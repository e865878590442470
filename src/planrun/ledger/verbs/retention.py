"""What was kept long enough, and how it goes: looked for by a reader, dropped by fenced statements, in batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planrun.core.history import What
from planrun.core.keeping import (
    MESSAGE_TTL_MS,
    WORKER_TTL_MS,
    Archived,
    Glance,
    Keep,
    Record,
    Stale,
    glance,
)
from planrun.core.kinds import RESULT_TTL_S
from planrun.core.life import State
from planrun.core.manifests import manifest_key
from planrun.core.messages import Handler, Result
from planrun.ledger.tx import Row, Tx, dump, load, one
from planrun.ledger.verbs.answers import find_result, kept_ms, stored_result
from planrun.ledger.verbs.history import note
from planrun.ledger.verbs.reading import attempts, events, job
from planrun.ledger.verbs.recovering import history
from planrun.ledger.verbs.requests import job_of_request

SECONDS_MAX = 1e10
DEFAULT_TTL_MS = round(RESULT_TTL_S * 1000)  # of a kind that no worker has ever declared


def remember(tx: Tx, handlers: Sequence[Handler], *, may_shorten: bool) -> None:
    """How long results are kept, as a worker declares its kinds. The last one to say so is right, if it may be."""
    for handler in handlers:
        ttl_ms = max(1, round(min(handler.result_ttl_s, SECONDS_MAX) * 1000))
        kind = {"kind": handler.kind, "version": handler.version}
        tx.rows("put_keep", **kind, result_ttl_ms=ttl_ms, may_shorten=int(may_shorten))


def doubt(tx: Tx) -> int:
    """How much longer the wall clock is doubted, milliseconds of running time."""
    known = one(tx, "meta", k="glance")
    last = load(known["v"], Glance) if known is not None else None
    now = glance(last, wall_ms=tx.now.wall_ms, boot_ms=tx.now.boot_ms, epoch=tx.now.epoch)
    tx.rows("set_meta", k="glance", v=dump(now))
    return now.doubt_ms


def keep(tx: Tx, keep: Keep) -> None:
    """How long things are kept from now on. The last one to say so is right."""
    tx.rows("set_meta", k="keep", v=dump(keep))


def stale(tx: Tx, *, limit: int) -> Stale:
    """What has been kept long enough, at most `limit` of each."""
    kept = _keep(tx)

    def rows(statement: str, ttl_ms: int) -> list[Row]:
        return tx.rows(statement, before_ms=tx.now.wall_ms - ttl_ms, limit=limit)

    def found(statement: str, column: str, ttl_ms: int) -> tuple[str, ...]:
        return tuple(row[column] for row in rows(statement, ttl_ms))

    ids = rows("stale_ids", round(kept.ids_ttl_s * 1000))
    manifests = [manifest_key(row["namespace"], row["job_id"]) for row in ids] if history(tx).strict else []
    return Stale(
        results=_stale_results(tx, limit),
        jobs=found("stale_jobs", "job_id", round(kept.job_ttl_s * 1000)),
        messages=found("stale_messages", "msg_id", MESSAGE_TTL_MS),
        ids=tuple(row["job_id"] for row in ids),
        manifests=tuple(manifests),
        workers=found("stale_workers", "incarnation", WORKER_TTL_MS),
    )


def is_forgotten(tx: Tx, result: Result) -> bool:
    """Would nobody know the id of a job that ended like this any more, had it never been lost?"""
    kept = _keep(tx)
    ttl_ms = max(kept_ms(tx, result), round(kept.job_ttl_s * 1000)) + round(kept.ids_ttl_s * 1000)
    return result.ended_at_ms <= tx.now.wall_ms - ttl_ms


def _keep(tx: Tx) -> Keep:
    known = one(tx, "meta", k="keep")
    return load(known["v"], Keep) if known is not None else Keep()


def _stale_results(tx: Tx, limit: int) -> tuple[str, ...]:
    found: list[str] = []
    at = {"kind": "", "version": ""}
    while len(found) < limit and (oldest := one(tx, "next_kept", **at)) is not None:
        at = {"kind": oldest["kind"], "version": oldest["version"]}
        before_ms = tx.now.wall_ms - (oldest["result_ttl_ms"] or DEFAULT_TTL_MS)
        if oldest["ended_at_ms"] <= before_ms:
            rows = tx.rows("stale_results", before_ms=before_ms, limit=limit - len(found), **at)
            found += [row["job_id"] for row in rows]
    return tuple(found)


def park(tx: Tx, msg_id: str, *, detail: str) -> bool:
    """Nobody takes a message, and its result has been kept long enough: it is owed no more, and the result may go."""
    _, job_id, _ = msg_id.split(":", 2)
    result = find_result(tx, job_id)
    if result is None or doubt(tx) > 0:
        return False
    before_ms = tx.now.wall_ms - kept_ms(tx, result)
    if not tx.rows("park", msg_id=msg_id, job_id=job_id, before_ms=before_ms, wall_ms=tx.now.wall_ms):
        return False
    note(tx, job_id, What.PARKED, detail=detail)
    return True


def records(tx: Tx, job_ids: Sequence[str]) -> list[Record]:
    """All that is known of these jobs, each as a line of the archive."""
    found = []
    for job_id in job_ids:
        row = job(tx, None, job_id)
        if row is None or row.ended_at_ms is None:
            continue
        happened = events(tx, job_id)
        result: Result | None = stored_result(tx, job_id)
        whole = {"job": row, "attempts": attempts(tx, job_id), "events": happened, "result": result}
        seen = happened[-1].id if happened else 0
        found.append(Record(job_id=job_id, ended_at_ms=row.ended_at_ms, seen=seen, line=dump(whole)))
    return found


def drop(tx: Tx, stale: Stale, *, archived: Mapping[str, int]) -> Stale:
    """Drop what is stale, as far as it still is. Of the jobs only those whose record is durable in the archive.

    Args:
        archived: Each of these jobs with the newest event of its record.

    Returns:
        What has gone.
    """

    def gone(statement: str, column: str, **values: object) -> tuple[str, ...]:
        return tuple(row[column] for row in tx.rows(statement, **values))

    results = gone("drop_results", "job_id", job_ids=dump(stale.results), wall_ms=tx.now.wall_ms)
    tx.rows("uncollect", job_ids=dump(results))
    jobs = gone("archive_jobs", "job_id", seen=dump(archived), wall_ms=tx.now.wall_ms)
    tx.rows("keep_requests", job_ids=dump(jobs))
    for statement in ("drop_result_rows", "drop_attempts", "drop_events", "drop_subscribers", "drop_jobs"):
        tx.rows(statement, job_ids=dump(jobs))
    tx.rows("tell_subscribers", msg_ids=dump(stale.messages))
    messages = gone("drop_messages", "msg_id", msg_ids=dump(stale.messages))
    tx.rows("drop_requests", job_ids=dump(stale.ids))
    ids = gone("drop_ids", "job_id", job_ids=dump(stale.ids))
    before_ms = tx.now.wall_ms - WORKER_TTL_MS
    workers = gone("drop_workers", "incarnation", incarnations=dump(stale.workers), before_ms=before_ms)
    return Stale(results=results, jobs=jobs, messages=messages, ids=ids, workers=workers)


def archived(tx: Tx, namespace: str | None, job_id: str) -> Archived | None:
    """A job whose record is in the archive, by its id or by a request id that led to it."""
    row = one(tx, "find_archived", job_id=job_id, namespace=namespace)
    if row is None:
        asked = job_of_request(tx, namespace, job_id)
        row = one(tx, "find_archived", job_id=asked, namespace=namespace) if asked is not None else None
    return None if row is None else Archived(**{**row, "state": State(row["state"])})
