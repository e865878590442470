"""What the holder of a lease asks: grant, renew, fence check, checkpoint, stopped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planrun.core.errors import Invalid
from planrun.core.history import What
from planrun.core.life import State
from planrun.core.messages import (
    Beat,
    Checkpoint,
    CheckpointRequest,
    Granted,
    GrantRequest,
    Lease,
    Output,
    Refused,
    RenewRequest,
    Standing,
)
from planrun.core.names import token_of, token_shown
from planrun.core.pauses import find_pause
from planrun.ledger.tx import Row, Tx, dump, load, one
from planrun.ledger.verbs.history import note
from planrun.ledger.verbs.pausing import open_pauses
from planrun.ledger.verbs.recovering import heed_lease, heed_offer, sealer
from planrun.ledger.verbs.versions import refuse_outdated
from planrun.trip import trip

HELD = Standing(status="held")


def grant_first(tx: Tx, requests: Sequence[GrantRequest]) -> Granted | Refused:
    """Lease the first attempt that can be leased to its worker; the same nonce gets the same token again."""
    if not requests:
        raise Invalid("no job is named: ask for one at least")
    for request in requests:  # before any grant: it would be a second one
        if (again := _granted_before(tx, request)) is not None:
            return again
    why = ""
    for request in requests:
        if not (refused := _why_not(tx, request)):
            return _grant(tx, request)
        why = why or refused
    return Refused(why=why)


def _grant(tx: Tx, request: GrantRequest) -> Granted | Refused:
    refuse_outdated(tx)
    token = next_token(tx)
    row = one(
        tx,
        "grant",
        job_id=request.job_id,
        attempt=request.attempt,
        incarnation=request.incarnation,
        token=token,
        epoch=tx.now.epoch,
        now_ms=tx.now.boot_ms,
        lease_ms=request.lease_ms,
    )
    if row is None:
        return Refused(why="not-ready")  # all else was looked at above: this worker may not take work
    tx.rows(
        "insert_attempt",
        job_id=request.job_id,
        attempt=request.attempt,
        token=token,
        nonce=request.nonce,
        incarnation=request.incarnation,
        wall_ms=tx.now.wall_ms,
    )
    note(
        tx,
        request.job_id,
        What.GRANTED,
        attempt=request.attempt,
        who=row["worker"],
        detail=f"token {token_shown(token)}",
    )
    trip("grant:written")
    return _granted(tx, request.job_id, request.attempt, token, row)


def next_token(tx: Tx) -> int:
    """A number above all that were given out before, also before a restore."""
    row = one(tx, "next_n")
    assert row is not None, "the ledger has lost its counter"
    return token_of(row["generation"], row["n"])


def _granted(tx: Tx, job_id: str, attempt: int, token: int, row: Row) -> Granted:
    checkpoints: list[Checkpoint] = load(row["checkpoint"], list[Checkpoint])
    return Granted(
        lease=Lease(job_id=job_id, attempt=attempt, token=token, seal=sealer(tx)(job_id, attempt, token)),
        namespace=row["namespace"],
        kind=row["kind"],
        version=row["version"],
        inputs=load(row["inputs"], dict[str, str]),
        params=load(row["params"], dict[str, Any]),
        checkpoint=checkpoints[0] if checkpoints else None,
        failures=row["failures"],
        losses=row["losses"],
        handbacks=row["handbacks"],
    )


def _granted_before(tx: Tx, request: GrantRequest) -> Granted | None:
    """The same grant again: its reply was lost. Without the nonce a duplicate offer would look the same."""
    made = one(tx, "find_attempt", job_id=request.job_id, attempt=request.attempt)
    if made is None or (made["incarnation"], made["nonce"]) != (request.incarnation, request.nonce):
        return None
    job = one(tx, "job_state", job_id=request.job_id)
    if job is None or job["state"] != State.RUNNING or job["token"] != made["token"]:
        return None
    again = one(tx, "granted_again", job_id=request.job_id)
    return _granted(tx, request.job_id, request.attempt, made["token"], again) if again is not None else None


def _why_not(tx: Tx, request: GrantRequest) -> str:
    """Why the job cannot be granted at that attempt; empty if it can."""
    job = one(tx, "job_state", job_id=request.job_id)
    if job is None:
        return "unknown"
    if job["ended_at_ms"] is not None:
        return "ended"
    if request.attempt != job["attempt"]:
        if request.attempt < job["attempt"]:
            return "stale"
        heed_offer(tx, request, job["attempt"])
        return "ahead"
    if job["state"] == State.RUNNING:
        return "running"
    if job["not_before_ms"] > tx.now.boot_ms:
        return "not-due"
    return "paused" if find_pause(open_pauses(tx), namespace=job["namespace"], kind=job["kind"]) is not None else ""


def renew(tx: Tx, requests: Sequence[RenewRequest]) -> list[list[Standing]]:
    """Extend every lease that is still held, of many workers at once, and say what became of the others."""
    tx.rows("see_workers", incarnations=dump([request.incarnation for request in requests]), wall_ms=tx.now.wall_ms)
    beats = [(*_identity(beat.lease), request.lease_ms) for request in requests for beat in request.beats]
    rows = tx.rows("renew", beats=dump(beats), now_ms=tx.now.boot_ms) if beats else []
    held = {(row["job_id"], row["attempt"], row["token"]) for row in rows}
    return [[_renewed(tx, beat, is_held=_identity(beat.lease) in held) for beat in each.beats] for each in requests]


def _renewed(tx: Tx, beat: Beat, *, is_held: bool) -> Standing:
    if not is_held:
        return lost_or_canceled(tx, beat.lease)
    if beat.fraction is not None or beat.message is not None:
        said = {"fraction": beat.fraction, "message": beat.message, "wall_ms": tx.now.wall_ms}
        tx.rows("say_progress", **_fence(beat.lease), **said)
    return HELD


def standing(tx: Tx, lease: Lease, intent: Sequence[Output]) -> Standing:
    """The fence check before an upload. As good as a heartbeat: who hears that it holds trusts itself anew."""
    staged = dump([output.name for output in intent])
    if not tx.rows("stage", **_fence(lease), staged=staged):
        return lost_or_canceled(tx, lease)
    tx.rows("extend", **_fence(lease), now_ms=tx.now.boot_ms)
    return HELD


def checkpoint(tx: Tx, request: CheckpointRequest) -> Standing:
    """Keep what the next attempt may start from: the newest, and the one before."""
    lease, newest = request.lease, request.checkpoint
    job = one(tx, "job_state", job_id=lease.job_id)
    if job is None:
        return lost_or_canceled(tx, lease)
    kept: list[Checkpoint] = load(job["checkpoint"], list[Checkpoint])
    if kept and kept[0] == newest:
        return HELD if owns(job, lease) else lost_or_canceled(tx, lease)  # its reply was lost
    before = kept[:1]
    if not tx.rows("checkpoint", **_fence(lease), seq=newest.seq, checkpoint=dump([newest, *before])):
        return lost_or_canceled(tx, lease)
    size = sum(file.bytes for file in newest.files)
    note(tx, lease.job_id, What.CHECKPOINT, attempt=lease.attempt, detail=f"{len(newest.files)} files, {size} bytes")
    return HELD


def stopped(tx: Tx, lease: Lease, who: str) -> None:
    """The process tree of an attempt that no longer runs is dead."""
    if tx.rows("stopped", **_fence(lease)):
        note(tx, lease.job_id, What.STOPPED, attempt=lease.attempt, who=who)


def owns(job: Row, lease: Lease) -> bool:
    """Is this lease the one that owns the job, as read in this transaction?"""
    return (job["state"], job["attempt"], job["token"]) == (State.RUNNING, lease.attempt, lease.token)


def lost_or_canceled(tx: Tx, lease: Lease) -> Standing:
    """Why a lease is not held, in words for its former holder."""
    heed_lease(tx, lease)
    job = one(tx, "job_state", job_id=lease.job_id)
    if job is None:
        return Standing(status="lost", why="the ledger does not know the job")
    if owns(job, lease):
        return Standing(status="lost", why="an older checkpoint")
    if job["state"] == State.CANCELED:
        return Standing(status="canceled", why="canceled by request")
    return Standing(status="lost", why=f"the job is {job['state']} at attempt {job['attempt']}")


def _identity(lease: Lease) -> tuple[str, int, int]:
    return lease.job_id, lease.attempt, lease.token


def _fence(lease: Lease) -> dict[str, Any]:
    return {"job_id": lease.job_id, "attempt": lease.attempt, "token": lease.token}
