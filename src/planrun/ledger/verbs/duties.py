"""What must happen by itself: leases that end, waits that end, messages that are owed, files that are garbage."""

from __future__ import annotations

import hmac
from collections import Counter
from collections.abc import Collection, Sequence

from planrun.core.access import digest_of
from planrun.core.flows import Astray
from planrun.core.keeping import Garbage
from planrun.core.life import Outcome, State
from planrun.core.messages import Checkpoint, Due, Lease, Message, Output
from planrun.core.names import attempt_prefix, log_key
from planrun.core.presence import LOST_AFTER_MS
from planrun.ledger.tx import Tx, dump, load, one
from planrun.ledger.verbs.ending import lose, overdue
from planrun.ledger.verbs.fleet import SLICE, worker_row

UPLOAD_AGE_MAX_MS = 7 * 86_400_000  # an attempt that nobody knows to be dead writes no longer than this
WALL_STEP_MS = 60_000  # less is drift, which ordinary signs of life outrun


def due(tx: Tx, *, holders: bool = True) -> Due:
    """What a sweep would find now, and when to look again.

    Args:
        holders: Also who has something to prove; of no use where they live on other machines, and then many.
    """
    row = one(tx, "due")
    assert row is not None
    now = tx.now
    deadline_ms = None if row["deadline_at_ms"] is None else now.boot_ms + row["deadline_at_ms"] - now.wall_ms
    times = [row["lease_ms"], row["delayed_ms"], row["message_ms"], deadline_ms]

    def passed(when_ms: int | None) -> bool:
        return when_ms is not None and when_ms <= now.boot_ms

    return Due(
        foreign_epoch=row["epoch"] != now.epoch,
        promotable=passed(row["delayed_ms"]),
        deadlines=passed(deadline_ms),
        messages=passed(row["message_ms"]),
        holders=tuple(worker_row(holder) for holder in tx.rows("holders")) if holders else (),
        lease_ms=row["lease_ms"],
        next_ms=min((time for time in times if time is not None), default=None),
    )


def adopt_epoch(tx: Tx) -> int:
    """The machine was rebooted: its old clock means nothing here, and nobody of the other boot lives, but in a fleet.

    In the same boot it only follows a wall clock that was stepped.
    """
    known = one(tx, "meta", k="clock_epoch")
    if known is not None and known["v"] == tx.now.epoch:
        _follow_wall_clock(tx)
        return 0
    beat_epoch = one(tx, "meta", k="beat_epoch")
    if beat_epoch is not None:  # a fleet's ledger: those who hold leases live on other machines
        rearm(tx, beat_epoch=beat_epoch["v"])
    ended = tx.rows("foreign_leases", epoch=tx.now.epoch)
    for row in ended:
        lose(tx, row["job_id"], "the machine was rebooted", who="reboot", stopped=True)
    offset = one(tx, "meta", k="epoch_offset_ms")
    if known is not None and offset is not None:
        # Old boottime + old offset = wall clock; minus the new offset = the same moment on the new boottime.
        # A wall clock that starts in 1970 must not stretch a wait: no wait was longer than the old boot's time.
        shift_ms = min(offset["v"] - (tx.now.wall_ms - tx.now.boot_ms), tx.now.boot_ms)
        tx.rows("rebase_jobs", shift_ms=shift_ms)
        tx.rows("rebase_messages", shift_ms=shift_ms)
    tx.rows("set_meta", k="clock_epoch", v=tx.now.epoch)
    tx.rows("set_meta", k="epoch_offset_ms", v=tx.now.wall_ms - tx.now.boot_ms)
    return len(ended)


def _follow_wall_clock(tx: Tx) -> None:
    """The wall clock was set: nobody was silent for that long, so the fleet is as well known as before."""
    offset = one(tx, "meta", k="epoch_offset_ms")
    offset_ms = tx.now.wall_ms - tx.now.boot_ms
    if offset is None or abs(offset_ms - offset["v"]) < WALL_STEP_MS:
        return
    tx.rows("rebase_workers", shift_ms=offset_ms - offset["v"])
    tx.rows("set_meta", k="epoch_offset_ms", v=offset_ms)


def begin_beats(tx: Tx) -> int:
    """A new epoch of the heartbeats."""
    last = one(tx, "meta", k="beat_epoch")
    epoch = last["v"] + 1 if last is not None else 1
    tx.rows("set_meta", k="beat_epoch", v=epoch)
    return int(epoch)


def rearm(tx: Tx, *, beat_epoch: int) -> int:
    """Give every running lease its full length again, unless another epoch of the heartbeats has begun."""
    values = {"now_ms": tx.now.boot_ms, "clock_epoch": tx.now.epoch, "beat_epoch": beat_epoch}
    return len(tx.rows("rearm", **values))


def silent(tx: Tx, *, stamp_ms: int) -> dict[str, int]:
    """How many leases of each worker ran out at or before the stamp."""
    return Counter(row["incarnation"] for row in tx.rows("silent", stamp_ms=stamp_ms))


def astray(tx: Tx, job_ids: Collection[str]) -> list[Astray]:
    """The attempts of these jobs that were ended over the head of their worker."""
    return [
        Astray(
            incarnation=row["incarnation"],
            lease=Lease(job_id=row["job_id"], attempt=row["attempt"], token=row["token"]),
            status="canceled" if row["outcome"] == Outcome.CANCELED else "lost",
            why=row["why"] or "",
        )
        for row in tx.rows("astray", job_ids=dump(list(job_ids)))
    ]


def expire(tx: Tx, *, stamp_ms: int, incarnation: str | None = None) -> int:
    """End leases that ran out at or before the stamp, which was read before anybody waited for the ledger."""
    rows = tx.rows("expired", stamp_ms=stamp_ms, incarnation=incarnation, limit=SLICE)
    for row in rows:
        lose(tx, row["job_id"], "its lease ran out without a sign of its worker", who="sweeper", stopped=False)
    return len(rows)


def knock(tx: Tx) -> int:
    """Write something that means nothing, to learn whether anything can be written."""
    tx.rows("set_meta", k="knocked_at_ms", v=tx.now.wall_ms)
    return 0


def bury(tx: Tx, incarnation: str, *, who: str) -> int:
    """A worker and its job trees are proven dead."""
    rows = tx.rows("running_of", incarnation=incarnation, limit=SLICE)
    for row in rows:
        lose(tx, row["job_id"], "its worker is dead: its lock was free", who=who, stopped=True)
    tx.rows("all_stopped", incarnation=incarnation)
    tx.rows("unsee_worker", incarnation=incarnation, before_ms=tx.now.wall_ms - LOST_AFTER_MS)
    return len(rows)


def bury_own(tx: Tx, incarnation: str, *, secret: str, who: str) -> int | None:
    """As `bury`, for whoever knows the secret of that worker. None: this is not it."""
    kept = one(tx, "proof", incarnation=incarnation)
    if kept is None or not hmac.compare_digest(kept["digest"], digest_of(secret)):
        return None
    return bury(tx, incarnation, who=who)


def promote(tx: Tx) -> int:
    """Let delayed jobs that have come due join the line."""
    return len(tx.rows("promote", now_ms=tx.now.boot_ms, limit=SLICE))


def end_overdue(tx: Tx) -> int:
    """Fail jobs whose own deadline has passed."""
    rows = tx.rows("overdue", wall_ms=tx.now.wall_ms, limit=SLICE)
    for row in rows:
        overdue(tx, row["job_id"])
    return len(rows)


def take_messages(tx: Tx, *, limit: int, retry_ms: int) -> list[Message]:
    """Messages that are owed now."""
    rows = tx.rows("take_messages", now_ms=tx.now.boot_ms, limit=limit, retry_ms=retry_ms)
    return [Message(**row) for row in rows]


def garbage(tx: Tx, *, grace_ms: int, limit: int, visited: Collection[int]) -> list[Garbage]:
    """Ended attempts, and what of them must stay: the winner's outputs and log, and what a live job may resume from."""
    found = []
    now_ms = tx.now.wall_ms
    values = {"before_ms": now_ms - grace_ms, "silent_since_ms": now_ms - UPLOAD_AGE_MAX_MS, "limit": limit}
    for row in tx.rows("garbage", visited=dump(list(visited)), **values):
        keep: list[str] = []
        if row["state"] in (State.QUEUED, State.RUNNING):
            checkpoints: list[Checkpoint] = load(row["checkpoint"], list[Checkpoint])
            keep += [file.key for checkpoint in checkpoints for file in checkpoint.files]
        if row["winner"] == row["token"]:
            outputs: list[Output] = load(row["outputs"], list[Output])
            keep += [output.key for output in outputs]
            keep.append(log_key(attempt_prefix(row["namespace"], row["job_id"], row["attempt"], row["token"])))
        lease = Lease(job_id=row["job_id"], attempt=row["attempt"], token=row["token"])
        found.append(Garbage(namespace=row["namespace"], lease=lease, keep=tuple(keep), final=bool(row["final"])))
    return found


def collected(tx: Tx, lease: Lease) -> None:
    """The objects of an attempt are gone, but for those that count. Kept open while its job may resume from it."""
    tx.rows("collected", job_id=lease.job_id, attempt=lease.attempt, token=lease.token)


def live_tokens(tx: Tx, tokens: Sequence[int]) -> set[int]:
    """Those whose attempt may still write: neither known to be stopped, nor over for longer than any attempt writes."""
    silent_since_ms = tx.now.wall_ms - UPLOAD_AGE_MAX_MS
    found = tx.rows("live_tokens", tokens=dump(list(tokens)), silent_since_ms=silent_since_ms)
    return {row["token"] for row in found}
