"""How attempts and jobs end: the result, the messages that are owed, and the history, in one transaction."""

from __future__ import annotations

from typing import Any

from planrun.core.budget import Budgets, Counter, Verdict, after_attempt
from planrun.core.errors import Invalid, UnknownJob
from planrun.core.history import What
from planrun.core.life import Event, Outcome, Reason, State, next_state
from planrun.core.messages import (
    CancelReply,
    CancelRequest,
    Checkpoint,
    Failure,
    Lease,
    Output,
    ReleaseRequest,
    Settled,
    SettleRequest,
)
from planrun.core.names import attempt_prefix
from planrun.ledger.tx import Row, Tx, dump, load, one
from planrun.ledger.verbs.answers import owe_answer
from planrun.ledger.verbs.history import note
from planrun.ledger.verbs.holding import lost_or_canceled, owns
from planrun.ledger.verbs.requests import job_of_request, shown_state
from planrun.trip import trip

CLAIMABLE = frozenset(Outcome) - {Outcome.LOST, Outcome.RELEASED, Outcome.CANCELED}
_FAILED = frozenset({Outcome.PERMANENT, Outcome.TRANSIENT, Outcome.FATAL, Outcome.STALLED, Outcome.OVERTIME})


def settle(tx: Tx, request: SettleRequest) -> Settled:
    """Write how an attempt ended. A repeated call gets the same answer, a stale one writes nothing.

    Raises:
        Invalid: Not an outcome that a holder may claim, or files that are not its own.
    """
    if request.outcome not in CLAIMABLE:
        raise Invalid(f"an attempt cannot settle as {request.outcome}; the ledger alone says so")
    job = one(tx, "job_state", job_id=request.lease.job_id)
    if job is None or not owns(job, request.lease):
        return _settled_before(tx, request)
    own = attempt_prefix(job["namespace"], job["job_id"], job["attempt"], job["token"])
    for output in request.outputs:  # whoever may read the answer gets what it names
        if not output.key.startswith(own):
            raise Invalid(f"output {output.name!r:.80}: {output.key!r:.200} is no object of this attempt")
    settled = end_attempt(
        tx,
        job,
        request.outcome,
        error=request.error,
        who=request.who,
        stopped=True,
        outputs=request.outputs,
        value=request.value,
    )
    trip("settle:written")
    return settled


def release(tx: Tx, request: ReleaseRequest) -> Settled:
    """Hand a job back unharmed."""
    job = one(tx, "job_state", job_id=request.lease.job_id)
    if job is None or not owns(job, request.lease):
        again = SettleRequest(lease=request.lease, outcome=Outcome.RELEASED, who=request.who)
        return _settled_before(tx, again)
    why = Failure(message=request.why, code="released")
    return end_attempt(tx, job, Outcome.RELEASED, error=why, who=request.who, stopped=True, started=request.started)


def lose(tx: Tx, job_id: str, why: str, *, who: str, stopped: bool) -> None:
    """End the running attempt of a job whose worker vanished."""
    job = one(tx, "job_state", job_id=job_id)
    if job is not None and job["state"] == State.RUNNING:
        end_attempt(tx, job, Outcome.LOST, error=Failure(message=why, code="lost"), who=who, stopped=stopped)


def end_attempt(
    tx: Tx,
    job: Row,
    outcome: Outcome,
    *,
    error: Failure | None,
    who: str,
    stopped: bool,
    started: bool = True,
    outputs: tuple[Output, ...] = (),
    value: Any = None,
) -> Settled:
    """End the attempt that owns a job, by the rules of `core.budget`.

    Args:
        job: The row as read in this transaction; its attempt and token are the fence.
        stopped: The attempt's process tree is known to be dead.
        started: False if the job code never began.
    """
    checkpoints: list[Checkpoint] = load(job["checkpoint"], list[Checkpoint])
    kept, doubted = _after_resume(checkpoints, job["attempt"], outcome)
    counted = Outcome.TRANSIENT if doubted and outcome is Outcome.PERMANENT else outcome
    verdict = after_attempt(_budgets(job), counted, started=started)
    lease = Lease(job_id=job["job_id"], attempt=job["attempt"], token=job["token"])

    tx.rows(
        "end_attempt",
        job_id=lease.job_id,
        attempt=lease.attempt,
        token=lease.token,
        outcome=outcome,
        error=dump(error) if error is not None else None,
        stopped=int(stopped),
        wall_ms=tx.now.wall_ms,
    )
    words = [error.message if error is not None else ""]
    if doubted:
        words.append("the checkpoint it resumed from is dropped")
    if verdict.event is Event.REQUEUE:
        _requeue(tx, lease, verdict, kept)
        words.append(f"again in {verdict.wait_ms / 1000:g} s" if verdict.wait_ms else "again at once")
    note(
        tx,
        lease.job_id,
        What(outcome),
        attempt=lease.attempt,
        who=who,
        detail="; ".join(word for word in words if word),
    )
    if verdict.event is Event.REQUEUE:
        return Settled(status="requeued", state=State.QUEUED)

    if verdict.reason is Reason.EXHAUSTED:
        error = _exhausted(tx, lease.job_id, verdict.spent, error)
    state = next_state(State.RUNNING, verdict.event)
    _end_running(tx, lease, state, verdict)
    _conclude(tx, lease.job_id, state, lease, error=error, outputs=outputs, value=value)
    return Settled(status="won", state=state)


def cancel(tx: Tx, request: CancelRequest) -> CancelReply:
    """End a job for every caller. Its process tree follows: `stopped` says when."""
    job = one(tx, "job_state", job_id=request.job_id)
    if job is None or job["namespace"] != request.namespace:
        asked = job_of_request(tx, request.namespace, request.job_id)
        job = one(tx, "job_state", job_id=asked) if asked is not None else None
    if job is None:
        raise UnknownJob(f"no job {request.job_id} in namespace {request.namespace}")
    job_id = job["job_id"]
    if job["ended_at_ms"] is not None:
        return CancelReply(canceled=False, state=shown_state(job))
    by = f" by {request.who}" if request.who else ""
    error = Failure(message=f"canceled{by}{': ' + request.why if request.why else ''}", code="canceled")
    if job["state"] == State.RUNNING:
        end_attempt(tx, job, Outcome.CANCELED, error=error, who=request.who, stopped=False)
    else:
        end_queued(tx, job_id, State.CANCELED, None, error, who=request.who)
    ended = one(tx, "job_state", job_id=job_id)
    assert ended is not None, "the job was written a moment ago"
    return CancelReply(canceled=True, state=shown_state(ended))


def overdue(tx: Tx, job_id: str) -> None:
    """End a job whose own deadline has passed, wherever it is."""
    job = one(tx, "job_state", job_id=job_id)
    if job is None or job["ended_at_ms"] is not None:
        return
    where = "while it ran" if job["state"] == State.RUNNING else "while it waited for a worker"
    error = Failure(message=f"the job's deadline passed {where} (attempt {job['attempt']})", code="deadline")
    if job["state"] == State.QUEUED:
        end_queued(tx, job_id, State.FAILED, Reason.DEADLINE, error)
        return
    lease = Lease(job_id=job_id, attempt=job["attempt"], token=job["token"])
    tx.rows(
        "end_attempt",
        job_id=job_id,
        attempt=lease.attempt,
        token=lease.token,
        outcome=Outcome.CANCELED,
        error=dump(error),
        stopped=0,
        wall_ms=tx.now.wall_ms,
    )
    _end_running(tx, lease, State.FAILED, Verdict(event=Event.FAIL, reason=Reason.DEADLINE))
    note(tx, job_id, What.DEADLINE, attempt=lease.attempt, detail=error.message)
    _conclude(tx, job_id, State.FAILED, lease, error=error)


def end_queued(tx: Tx, job_id: str, state: State, reason: Reason | None, error: Failure, *, who: str = "") -> None:
    """End a job that waits."""
    job = one(tx, "job_state", job_id=job_id)
    if job is None:
        return
    if tx.rows("end_queued", job_id=job_id, attempt=job["attempt"], state=state, reason=reason, wall_ms=tx.now.wall_ms):
        note(tx, job_id, What(reason or state), attempt=job["attempt"], who=who, detail=error.message)
        _conclude(tx, job_id, state, Lease(job_id=job_id, attempt=job["attempt"], token=0), error=error)


def _after_resume(kept: list[Checkpoint], attempt: int, outcome: Outcome) -> tuple[list[Checkpoint], bool]:
    """What stays of the checkpoints, and whether the one resumed from is in doubt.

    A failed attempt that had resumed and left nothing newer may have failed *because* of what it resumed
    from: that one is dropped. A permanent failure drops all of them and is counted as transient, once: the
    next attempt starts from the beginning.
    """
    if outcome not in _FAILED or not kept or kept[0].attempt >= attempt:
        return kept, False
    return ([] if outcome is Outcome.PERMANENT else kept[1:]), True


def _budgets(job: Row) -> Budgets:
    return Budgets(
        failures=job["failures"],
        max_attempts=job["max_attempts"],
        losses=job["losses"],
        max_losses=job["max_losses"],
        handbacks=job["handbacks"],
        max_handbacks=job["max_handbacks"],
    )


def _charge(verdict: Verdict) -> dict[str, int]:
    return {counter.value: int(counter is verdict.counter) for counter in Counter}


def _requeue(tx: Tx, lease: Lease, verdict: Verdict, checkpoints: list[Checkpoint]) -> None:
    queued = tx.rows(
        "requeue",
        job_id=lease.job_id,
        attempt=lease.attempt,
        token=lease.token,
        checkpoint=dump(checkpoints),
        not_before_ms=tx.now.boot_ms + verdict.wait_ms if verdict.wait_ms else 0,
        **_charge(verdict),
    )
    assert queued, "the statement's budgets and core.budget disagree"


def _end_running(tx: Tx, lease: Lease, state: State, verdict: Verdict) -> None:
    ended = tx.rows(
        "end_running",
        job_id=lease.job_id,
        attempt=lease.attempt,
        token=lease.token,
        state=state,
        reason=verdict.reason,
        wall_ms=tx.now.wall_ms,
        **_charge(verdict),
    )
    assert ended, "the row changed inside its own transaction"


def _conclude(
    tx: Tx,
    job_id: str,
    state: State,
    lease: Lease,
    *,
    error: Failure | None = None,
    outputs: tuple[Output, ...] = (),
    value: Any = None,
) -> None:
    """The result of an ended job, and the messages that say so. The job row has been written before."""
    tx.rows(
        "insert_result",
        job_id=job_id,
        attempt=lease.attempt,
        token=lease.token or None,
        status=state,
        outputs=dump(outputs),
        value=dump(value) if value is not None else None,
        error=dump(error) if error is not None else None,
    )
    owe_answer(tx, job_id)


def _exhausted(tx: Tx, job_id: str, spent: str, last: Failure | None) -> Failure:
    """Which budget ran out, and every cause."""
    causes = []
    for row in tx.rows("attempts", job_id=job_id):
        if row["outcome"] in (None, Outcome.SUCCESS):
            continue
        failure: Failure | None = load(row["error"], Failure)
        said = failure.message[:300] if failure is not None else ""
        worker = f" on {row['worker']}" if row["worker"] else ""
        causes.append(f"attempt {row['attempt']}{worker} {row['outcome']}: {said}")
    return Failure(
        message=f"{spent}. " + " | ".join(causes), code="exhausted", tail=last.tail if last is not None else ""
    )


def _settled_before(tx: Tx, request: SettleRequest) -> Settled:
    """The answer to a settle whose attempt does not own the job: the same as before, or a refusal."""
    lease = request.lease
    row = one(tx, "find_attempt", job_id=lease.job_id, attempt=lease.attempt)
    if row is not None and row["token"] == lease.token and row["outcome"] == request.outcome:
        job = one(tx, "job_state", job_id=lease.job_id)
        result = one(tx, "find_result", job_id=lease.job_id)
        if job is not None and result is not None and result["token"] == lease.token:
            return Settled(status="won", state=State(job["state"]))
        if row["outcome"] not in (Outcome.LOST, Outcome.CANCELED):
            return Settled(status="requeued", state=State.QUEUED)
    refusal = lost_or_canceled(tx, lease)
    status = refusal.status
    if (
        row is not None
        and row["token"] == lease.token
        and row["outcome"]
        not in (
            None,
            Outcome.LOST,
            Outcome.RELEASED,
            Outcome.CANCELED,
        )
    ):
        status = "conflict"
    note(
        tx,
        lease.job_id,
        What.REFUSED,
        attempt=lease.attempt,
        who=request.who,
        detail=f"{request.outcome} came too late ({status}): {refusal.why}",
    )
    return Settled(status=status, why=refusal.why)
