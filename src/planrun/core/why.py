"""Why is this job where it is? One sentence, from the same facts and rules that decide it.

The first cause that holds is the one that is said: an end, a holder, a pause, a wait, a fleet that cannot, a fleet that
is lost, a rate of 0, a fleet that is busy, a broker that is away, a rate, a line. What a worker decides for itself
(room on its disk, memory, health) is in no ledger: then the sentence says where to look.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum

import msgspec

from planrun.core.durations import span
from planrun.core.life import Outcome, State
from planrun.core.machines import MachineClass
from planrun.core.messages import AttemptRow, Failure, JobRow, Struct, WorkerRow
from planrun.core.offers import OLDEST_EVERY
from planrun.core.pauses import Pause, pause_in_words
from planrun.core.presence import state_of
from planrun.core.rates import rate_in_words
from planrun.core.routing import Cold, Missing, find_route

START_ONE = "start one with planrun worker MODULE"
AHEAD_MAX = 10_000  # of each kind: nobody who waits behind so many asks for the exact number


class Cause(StrEnum):
    """What decides it right now."""

    ENDED = "ended"
    STOPPING = "stopping"  # canceled, but its processes are not yet known to be dead
    RUNNING = "running"
    WORKER_LOST = "worker-lost"  # it ran there, and nobody has taken it over yet
    PAUSED = "paused"
    DELAYED = "delayed"  # by its sender
    BACK_OFF = "back-off"  # after an attempt that ended badly
    NO_WORKER = "no-worker"  # none was seen lately
    UNSUPPORTED = "unsupported"  # none of those that were seen could run it
    FLEET_LOST = "fleet-lost"  # those that could run it are dead, or take no more work
    BUSY = "busy"
    NO_BROKER = "no-broker"  # that would carry the offers
    RATE = "rate"
    BEHIND = "behind"
    NEXT = "next"


class Ahead(Struct, kw_only=True):
    """How many ready jobs one worker would take before this one.

    Attributes:
        older: Of the same priority.
        elders: All that are older: what counts when the worker goes by age.
    """

    urgent: int = 0
    older: int = 0
    elders: int = 0


class Offering(Struct, kw_only=True):
    """How an orchestrator shows jobs to its fleet, where a broker carries the offers.

    Attributes:
        stopped_at_ms: Since when the broker takes none; None: it does.
        per_s: How many jobs of this kind at most; None: as fast as they can be taken.
    """

    stopped_at_ms: int | None = None
    per_s: float | None = None


class Outlook(Struct, kw_only=True):
    """Everything in the ledger that decides when a job runs, as one look.

    Attributes:
        taken: Slots in use, by incarnation.
        ahead: By the incarnation of each worker that could run it.
        pause: What holds it back, if it is queued.
        offering: None: workers read from the ledger what there is.
        last: Its newest attempt.
        error: Why it ended, unless it finished.
    """

    job: JobRow
    workers: tuple[WorkerRow, ...] = ()
    declared: tuple[MachineClass, ...] = ()
    taken: dict[str, int] = msgspec.field(default_factory=dict)
    ahead: dict[str, Ahead] = msgspec.field(default_factory=dict)
    pause: Pause | None = None
    offering: Offering | None = None
    last: AttemptRow | None = None
    error: Failure | None = None


class Why(Struct, kw_only=True):
    """Attributes:
    cause: For programs.
    sentence: For people.
    """

    job_id: str
    state: State
    cause: Cause
    sentence: str


def why(outlook: Outlook, *, dead: Collection[str], boot_ms: int, wall_ms: int) -> Why:
    """Say why a job is not running yet, or where it is.

    Args:
        dead: Incarnations that are known, or taken, to be dead.
        boot_ms, wall_ms: Now, by the clocks of the ledger's machine.
    """
    job = outlook.job
    match job.state:
        case State.FINISHED | State.FAILED | State.CANCELED:
            cause, sentence = _ended(outlook, wall_ms)
        case State.RUNNING:
            cause, sentence = _running(outlook, dead, boot_ms, wall_ms)
        case State.QUEUED if outlook.pause is not None:
            cause, sentence = Cause.PAUSED, _paused(outlook.pause, wall_ms)
        case State.QUEUED if job.not_before_ms > boot_ms:
            cause, sentence = _waiting(job, outlook.last, job.not_before_ms - boot_ms)
        case State.QUEUED:
            cause, sentence = _in_line(outlook, dead, wall_ms)
    return Why(job_id=job.job_id, state=job.state, cause=cause, sentence=sentence)


def _ended(outlook: Outlook, wall_ms: int) -> tuple[Cause, str]:
    job = outlook.job
    ended = f"{job.state} {span(wall_ms - (job.ended_at_ms or wall_ms))} ago"
    reason = f" ({job.reason})" if job.reason else ""
    said = f": {outlook.error.message}" if outlook.error is not None else ""
    if job.stopping:
        return Cause.STOPPING, f"{ended}{said}; its processes on {job.worker} are being stopped"
    return Cause.ENDED, f"{ended}{reason}{said}"


def _running(outlook: Outlook, dead: Collection[str], boot_ms: int, wall_ms: int) -> tuple[Cause, str]:
    job = outlook.job
    if job.incarnation in dead:
        left_ms = (job.lease_until_ms or boot_ms) - boot_ms
        until = f"in {span(left_ms)} at the latest" if left_ms > 0 else "as soon as any worker looks"
        return Cause.WORKER_LOST, f"its worker {job.worker} is lost; it goes back in line {until}"
    since = f" for {span(wall_ms - outlook.last.granted_at_ms)}" if outlook.last is not None else ""
    return Cause.RUNNING, f"running on {job.worker}{since}, attempt {job.attempt}"


def _paused(pause: Pause, wall_ms: int) -> str:
    words = " ".join(filter(None, (pause.kind, f"--namespace {pause.namespace}" if pause.namespace else "")))
    since = span(wall_ms - pause.paused_at_ms)
    return f"{pause_in_words(pause)} (for {since}); let it go with planrun resume {words}".rstrip()


def _waiting(job: JobRow, last: AttemptRow | None, left_ms: int) -> tuple[Cause, str]:
    if last is None:
        return Cause.DELAYED, f"delayed by whoever submitted it, for another {span(left_ms)}"
    match last.outcome:
        case Outcome.LOST:
            after = f"lost worker {job.losses} of {job.max_losses}"
        case Outcome.RELEASED:
            after = f"hand-back {job.handbacks} of {job.max_handbacks}"
        case _:
            after = f"failure {job.failures} of {job.max_attempts}"
    said = f" ({last.error.message})" if last.error is not None else ""
    return Cause.BACK_OFF, f"waits another {span(left_ms)} after {after}{said}"


def _in_line(outlook: Outlook, dead: Collection[str], wall_ms: int) -> tuple[Cause, str]:
    job = outlook.job
    route = find_route(
        outlook.workers,
        namespace=job.namespace,
        kind=job.kind,
        version=job.version,
        needs=job.needs,
        now_ms=wall_ms,
        declared=outlook.declared,
    )
    if isinstance(route, Cold):
        return Cause.NO_WORKER, f"waits for a worker: none was seen in the last hour; {START_ONE}"
    if isinstance(route, Missing):
        return Cause.UNSUPPORTED, f"waits for a worker that could run it: {route.sentence}"
    able = [worker for worker in outlook.workers if worker.incarnation in route.incarnations]
    if not able:
        names = " or ".join(name.removeprefix("class ") for name in route.incarnations)
        return Cause.FLEET_LOST, f"waits for a machine of class {names}, as declared: none was seen in the last hour"
    ready = [worker for worker in able if worker.state == "ready" and worker.incarnation not in dead]
    if not ready:
        return Cause.FLEET_LOST, _lost(able, outlook.taken, dead, wall_ms)
    offering = outlook.offering or Offering()
    if offering.per_s == 0:
        return Cause.RATE, f"no {job.kind} is started: its rate is 0; let them go with planrun rate {job.kind} any"
    slots = sum(worker.slots for worker in ready)
    free = [worker for worker in ready if outlook.taken.get(worker.incarnation, 0) < worker.slots]
    line = _line(outlook, free or ready)
    if not free:
        names = ", ".join(worker.name for worker in ready)
        return Cause.BUSY, f"waits for a slot: {slots} of {slots} are taken on {names}{f', and {line}' if line else ''}"
    if offering.stopped_at_ms is not None:
        since = span(wall_ms - offering.stopped_at_ms)
        return Cause.NO_BROKER, f"the broker has taken no offers for {since}: the orchestrator's log says what it lacks"
    names = ", ".join(worker.name for worker in free)
    following = line or _next(names, one=len(free) == 1)
    if offering.per_s is not None and (line or offering.per_s < 1):  # a bucket holds one: the next has it within 1/rate
        rate = rate_in_words(offering.per_s)
        return Cause.RATE, f"at most {rate} of {job.kind} are started (planrun rate); {following}"
    return Cause.BEHIND if line else Cause.NEXT, following


def _next(names: str, *, one: bool) -> str:
    free, lacks, whose = (
        ("has a free slot", "that machine lacks", "its") if one else ("have free slots", "those machines lack", "each")
    )
    return (
        f"next in line for {names}, which {free}; if it stays so, {lacks} disk, memory or health: "
        f"{whose} worker's log says which"
    )


def _lost(able: Sequence[WorkerRow], taken: Mapping[str, int], dead: Collection[str], wall_ms: int) -> str:
    """None of the workers that could run it takes work: which, and since when."""
    parts = []
    for worker in able:
        is_dead = worker.incarnation in dead
        state = state_of(worker, running=taken.get(worker.incarnation, 0) > 0, dead=is_dead)
        rest = f", last seen {span(wall_ms - worker.seen_at_ms)} ago" if is_dead else " and takes no more work"
        parts.append(f"{worker.name} is {state}{rest}")
    return f"waits for a worker: {'; '.join(parts)}; {START_ONE}"


def _line(outlook: Outlook, workers: Sequence[WorkerRow]) -> str:
    """What the worker that would come to it first has to take before; empty: nothing."""
    found = [outlook.ahead.get(worker.incarnation, Ahead()) for worker in workers]
    first = min(found, key=lambda ahead: ahead.urgent + ahead.older)
    parts = [
        f"{count} {what}" for count, what in ((first.urgent, "of higher priority"), (first.older, "older")) if count
    ]
    count = first.urgent + first.older
    starts = OLDEST_EVERY * (first.elders + 1)
    by_age = f"; by its age it is one of the next {starts} starts" if starts <= count else ""
    if count >= AHEAD_MAX:
        return f"behind {count} jobs or more{by_age}"
    return f"behind {count} {'job' if count == 1 else 'jobs'} ({', '.join(parts)}){by_age}" if parts else ""
