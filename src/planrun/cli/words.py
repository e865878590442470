"""How people read a job: states, times, ages and sizes in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from planrun.clock import Instant
from planrun.core.durations import span
from planrun.core.life import State
from planrun.core.messages import Failure, JobRow, WorkerRow
from planrun.core.routing import Cold, Missing, Offered, find_route

START_ONE = "Start one: planrun worker MODULE"


def state_in_words(row: JobRow, now: Instant) -> str:
    """Where a job is, in one line."""
    match row.state:
        case State.QUEUED:
            wait_ms = row.not_before_ms - now.boot_ms
            if wait_ms > 0:
                return f"queued, attempt {row.attempt} not before {span(wait_ms)}"
            return f"waiting for a worker, attempt {row.attempt}"
        case State.RUNNING:
            return f"running{_on(row)}, attempt {row.attempt}{progress_in_words(row)}"
        case State.CANCELED:
            return f"canceled (stopping{_on(row)})" if row.stopping else "canceled"
        case State.FAILED:
            return f"failed ({row.reason})"
        case State.FINISHED:
            return "finished"


def awaited_in_words(row: JobRow, workers: Sequence[WorkerRow], now: Instant) -> str:
    """What a job that could run by now waits for; empty for any other job."""
    if row.state is not State.QUEUED or row.not_before_ms > now.boot_ms:
        return ""
    route = find_route(
        workers, namespace=row.namespace, kind=row.kind, version=row.version, needs=row.needs, now_ms=now.wall_ms
    )
    match route:
        case Cold():
            return f"a worker: none was seen lately. {START_ONE}"
        case Missing():
            return f"a worker that can run it: {route.sentence}"
        case Offered():
            able = [worker for worker in workers if worker.incarnation in route.incarnations]
            ready = [worker for worker in able if worker.state == "ready"]
            seen = ", ".join(f"{worker.name}, seen {span(now.wall_ms - worker.seen_at_ms)} ago" for worker in ready)
            return f"a free slot or room on {seen}" if ready else f"a worker: those that could run it stop. {START_ONE}"


def progress_in_words(row: JobRow) -> str:
    """What the job last said of itself, with its separator; empty if nothing."""
    fraction = "" if row.fraction is None else f", {row.fraction:.0%}"
    return f"{fraction}: {row.message}" if row.message else fraction


def failure_in_words(error: Failure) -> str:
    return f"{error.message} [{error.code}]" if error.code else error.message


def moment(at_ms: int, now: Instant) -> str:
    """A wall time as local ISO, with its distance from now."""
    when = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone().isoformat(sep=" ", timespec="seconds")
    distance = now.wall_ms - at_ms
    return f"{when} ({span(distance)} ago)" if distance >= 0 else f"{when} (in {span(-distance)})"


def size(count: int) -> str:
    """Bytes: 812 B, 1.4 MiB."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def _on(row: JobRow) -> str:
    return f" on {row.worker}" if row.worker else ""
