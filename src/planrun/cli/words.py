"""How people read a job: states, times, ages and sizes in words. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from planrun.clock import Instant
from planrun.core.durations import span
from planrun.core.life import State
from planrun.core.messages import Failure, JobRow
from planrun.core.progress import left_ms


def state_in_words(row: JobRow, now: Instant) -> str:
    """Where a job is, in one line."""
    match row.state:
        case State.QUEUED:
            wait_ms = row.not_before_ms - now.boot_ms
            if wait_ms > 0:
                return f"queued, attempt {row.attempt} not before {span(wait_ms)}"
            return f"waiting for a worker, attempt {row.attempt}"
        case State.RUNNING if row.closing:
            return f"ended{_on(row)}; the answer is being written down in the store"
        case State.RUNNING:
            return f"running{_on(row)}, attempt {row.attempt}{progress_in_words(row, now)}"
        case State.CANCELED:
            return f"canceled (stopping{_on(row)})" if row.stopping else "canceled"
        case State.FAILED:
            return f"failed ({row.reason})"
        case State.FINISHED:
            return "finished"


def progress_in_words(row: JobRow, now: Instant) -> str:
    """What the job last said of itself and what follows from it, with its separator; empty if nothing."""
    fraction = "" if row.fraction is None else f", {row.fraction:.0%}{left_in_words(row, now)}"
    return f"{fraction}: {row.message}" if row.message else fraction


def left_in_words(row: JobRow, now: Instant) -> str:
    """How long it will still take, with its separator; empty if nobody can say."""
    left = left_ms(row, wall_ms=now.wall_ms)
    return "" if left is None else f", about {span(left)} left"


def failure_in_words(error: Failure) -> str:
    return f"{error.message} [{error.code}]" if error.code else error.message


def job_document(row: JobRow, now: Instant) -> dict[str, Any]:
    """A job for programs: what the ledger says, and `left_ms`, how long it will still take if that can be said."""
    fields = {name: getattr(row, name) for name in row.__struct_fields__}
    return fields | {"left_ms": left_ms(row, wall_ms=now.wall_ms)}


def moment(at_ms: int, now: Instant) -> str:
    """A wall time as local ISO, with its distance from now."""
    when = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone().isoformat(sep=" ", timespec="seconds")
    distance = now.wall_ms - at_ms
    return f"{when} ({span(distance)} ago)" if distance >= 0 else f"{when} (in {span(-distance)})"


def time_of_day(at_ms: int) -> str:
    """A wall time as a local clock shows it."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone().strftime("%H:%M:%S")


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
