"""Submit: a new job, a repeated call, a caller that joins, or a stored answer."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from planrun.core.errors import Conflict, ResultGone
from planrun.core.history import What
from planrun.core.life import ENDED, Reason, State
from planrun.core.messages import Failure, SubmitReply, SubmitRequest
from planrun.core.names import job_id_of
from planrun.ledger.tx import Tx, dump, one
from planrun.ledger.verbs.answers import owe_answer, subscribe
from planrun.ledger.verbs.ending import end_queued
from planrun.ledger.verbs.fleet import Fleet
from planrun.ledger.verbs.history import note
from planrun.ledger.verbs.requests import find_request, shown_state
from planrun.ledger.verbs.versions import refuse_outdated


def submit(tx: Tx, requests: Sequence[SubmitRequest], *, is_warm: bool = True) -> list[SubmitReply]:
    """All or none: a conflict undoes the whole call.

    Args:
        is_warm: The fleet had time to register: what nobody in it could run fails at once.
    """
    refuse_outdated(tx)
    fleet = Fleet(tx) if is_warm else None
    return [_submit(tx, request, fleet) for request in requests]


def _submit(tx: Tx, request: SubmitRequest, fleet: Fleet | None) -> SubmitReply:
    known = find_request(tx, request.namespace, request.request_id)
    if known is not None:
        if known["request_hash"] != request.request_hash:
            raise Conflict(
                f"request id {request.request_id} was used before for something else (job {known['job_id']}); "
                "use a fresh request id for a new request",
                job_id=known["job_id"],
            )
        return _attach(tx, request, known["job_id"], "repeated")
    if (retried := _retried(tx, request)) is not None:
        _refuse_second_retry(tx, retried)

    if request.key is not None:
        holder = one(
            tx,
            "find_open_key",
            namespace=request.namespace,
            kind=request.kind,
            version=request.version,
            key=request.key,
        )
        if holder is not None and request.retry_of is not None:
            request = structs.replace(request, key=None)  # a retry is a new job in any case
        elif holder is not None:
            if holder["content_hash"] != request.content_hash:
                raise Conflict(
                    f"key {request.key!r} stands for other inputs or params (job {holder['job_id']}); "
                    + ("use another key" if holder["state"] in ENDED else "use another key, or cancel that job first"),
                    job_id=holder["job_id"],
                )
            _remember(tx, request, holder["job_id"])
            return _attach(tx, request, holder["job_id"], "joined")
    return _create(tx, request, fleet)


def _retried(tx: Tx, request: SubmitRequest) -> str | None:
    """The job that it repeats. Of another namespace it is none: nobody writes into the history of others."""
    old = one(tx, "job_state", job_id=request.retry_of) if request.retry_of is not None else None
    return old["job_id"] if old is not None and old["namespace"] == request.namespace else None


def _refuse_second_retry(tx: Tx, job_id: str) -> None:
    """Two people who retry the same job want it run once more, not twice."""
    made = one(tx, "open_retry", job_id=job_id)
    if made is not None:
        raise Conflict(
            f"{job_id} was retried before: job {made['job_id']} is {made['state']}; "
            "wait for that one, or cancel it first",
            job_id=made["job_id"],
        )


def _attach(tx: Tx, request: SubmitRequest, job_id: str, disposition: str) -> SubmitReply:
    """One more caller of a job that exists.

    Nothing locks the job: the ledger has one writer at a time, so that a settle either sees the new subscriber, or lets
    us see its result.
    """
    if disposition == "joined":
        joined = one(tx, "join_job", job_id=job_id, priority=request.priority, deadline_at_ms=request.deadline_at_ms)
        row = one(tx, "job_state", job_id=job_id)
        disposition = "joined" if joined is not None or (row is not None and row["closing"]) else "answered"
        note(tx, job_id, What(disposition), who=request.who, detail=f"request {request.request_id}")
    row = one(tx, "job_state", job_id=job_id)
    kept = row if row is not None else one(tx, "find_archived", job_id=job_id, namespace=None)
    assert kept is not None, "a request id outlives its job"
    if request.subscribers:
        if row is None or row["result_gone_at_ms"] is not None:
            raise ResultGone(
                f"request {request.request_id} was answered before (job {job_id}), and its result is no longer kept: "
                f"nothing could be sent to {request.subscribers[0]}; use a fresh request id to have it run again"
            )
        _subscribe(tx, request, job_id)
        if row["ended_at_ms"] is not None:
            owe_answer(tx, job_id)
    state = shown_state(row) if row is not None else State(kept["state"])
    return SubmitReply(job_id=job_id, disposition=disposition, state=state)


def _create(tx: Tx, request: SubmitRequest, fleet: Fleet | None) -> SubmitReply:
    job_id = job_id_of(request.namespace, request.request_id)
    delay_ms = round(request.delay_s * 1000)
    tx.rows(
        "insert_job",
        job_id=job_id,
        namespace=request.namespace,
        kind=request.kind,
        version=request.version,
        inputs=dump(request.inputs),
        params=dump(request.params),
        needs=dump(sorted(set(request.needs))) if request.needs else "[]",
        content_hash=request.content_hash,
        key=request.key,
        retry_of=request.retry_of,
        priority=request.priority,
        max_attempts=request.max_attempts,
        not_before_ms=tx.now.boot_ms + delay_ms if delay_ms > 0 else 0,
        wall_ms=tx.now.wall_ms,
        deadline_at_ms=request.deadline_at_ms,
        request_id=request.request_id,
        request_hash=request.request_hash,
        who=request.who,
        why=request.why,
    )
    _subscribe(tx, request, job_id)
    if (retried := _retried(tx, request)) is not None:
        why = f": {request.why}" if request.why else ""
        note(tx, retried, What.RETRIED, who=request.who, detail=f"as job {job_id}{why}")

    asked = (request.namespace, request.kind, request.version, request.needs)
    missing = fleet.missing_for(*asked) if fleet is not None else None
    if missing is None:
        return SubmitReply(job_id=job_id, disposition="new", state=State.QUEUED)
    end_queued(tx, job_id, State.FAILED, Reason.UNSUPPORTED, Failure(message=missing, code="unsupported"))
    ended = one(tx, "job_state", job_id=job_id)
    assert ended is not None, "the job was written a moment ago"
    return SubmitReply(job_id=job_id, disposition="new", state=shown_state(ended))


def _remember(tx: Tx, request: SubmitRequest, job_id: str) -> None:
    tx.rows(
        "insert_request",
        namespace=request.namespace,
        request_id=request.request_id,
        request_hash=request.request_hash,
        job_id=job_id,
        wall_ms=tx.now.wall_ms,
    )


def _subscribe(tx: Tx, request: SubmitRequest, job_id: str) -> None:
    for route in request.subscribers:
        subscribe(tx, job_id, route)
