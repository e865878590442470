"""Which kinds have open jobs, and who could still run them.

A version is left behind in a deploy when its last worker goes while jobs of it are open: nobody sees that in the
ledger, because a line that nobody serves looks like any other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from planrun.core.messages import Handler, Struct, WorkerRow
from planrun.core.pauses import Pause, find_pause


class OpenJobs(Struct, kw_only=True):
    """The jobs of one kind and version that have not ended."""

    namespace: str
    kind: str
    version: str
    queued: int = 0
    running: int = 0


class Coverage(Struct, kw_only=True):
    """One kind and version in one namespace.

    Attributes:
        live: Names of the workers that take its jobs.
        leaving: Names of workers that live and have it, but take no more work.
        pause: What holds its waiting jobs back.
        warning: What is wrong and what to do; empty: its open jobs have somebody.
    """

    namespace: str
    kind: str
    version: str
    queued: int
    running: int
    live: tuple[str, ...]
    leaving: tuple[str, ...]
    pause: Pause | None
    warning: str


def coverage(
    open_jobs: Iterable[OpenJobs], workers: Sequence[WorkerRow], pauses: Sequence[Pause], *, dead: Collection[str]
) -> list[Coverage]:
    """Every kind and version that has open jobs or a worker that lives.

    Args:
        dead: Incarnations that are known, or taken, to be dead.
    """
    alive = [worker for worker in workers if worker.state != "gone" and worker.incarnation not in dead]
    jobs = {(line.namespace, line.kind, line.version): line for line in open_jobs}
    served = {
        (namespace, handler.kind, handler.version)
        for worker in alive
        for namespace in worker.namespaces
        for handler in worker.handlers
    }
    return [
        _covered(jobs.get(name) or OpenJobs(namespace=name[0], kind=name[1], version=name[2]), alive, pauses)
        for name in sorted(served | set(jobs))
    ]


def left_without(
    open_jobs: Sequence[OpenJobs], workers: Sequence[WorkerRow], leaving: Collection[str], *, dead: Collection[str]
) -> list[str]:
    """What would be wrong with the open jobs if some workers took no more, that is not wrong now: in words.

    Args:
        leaving: Incarnations of those workers.
    """
    then = [
        msgspec.structs.replace(worker, state="draining")
        if worker.incarnation in leaving and worker.state == "ready"
        else worker
        for worker in workers
    ]
    now = {(row.namespace, row.kind, row.version) for row in coverage(open_jobs, workers, (), dead=dead) if row.warning}
    return [
        row.warning
        for row in coverage(open_jobs, then, (), dead=dead)
        if row.warning and (row.namespace, row.kind, row.version) not in now
    ]


def _covered(line: OpenJobs, alive: Sequence[WorkerRow], pauses: Sequence[Pause]) -> Coverage:
    having = [
        (worker, handler)
        for worker in alive
        if line.namespace in worker.namespaces
        for handler in worker.handlers
        if (handler.kind, handler.version) == (line.kind, line.version)
    ]
    live = tuple(worker.name for worker, handler in having if worker.state == "ready" and not handler.missing)
    leaving = tuple(worker.name for worker, handler in having if worker.state != "ready" and not handler.missing)
    is_left = not live and line.queued + line.running > 0
    return Coverage(
        namespace=line.namespace,
        kind=line.kind,
        version=line.version,
        queued=line.queued,
        running=line.running,
        live=live,
        leaving=leaving,
        pause=find_pause(pauses, namespace=line.namespace, kind=line.kind),
        warning=_warning(line, leaving, [handler for _, handler in having]) if is_left else "",
    )


def _warning(line: OpenJobs, leaving: Sequence[str], handlers: Sequence[Handler]) -> str:
    count = line.queued + line.running
    left = f"{line.kind} {line.version}: {count} open {'job' if count == 1 else 'jobs'}, and"
    start = f"start a worker that has {line.kind} {line.version} for namespace {line.namespace}"
    if leaving:
        return f"{left} its last worker ({', '.join(leaving)}) takes no more work; {start}"
    missing = sorted({need for handler in handlers for need in handler.missing})
    if missing:
        return f"{left} every worker that has it lacks {' or '.join(missing)}; install it there, or {start}"
    return f"{left} no live worker has it; {start}, or cancel what nobody needs"
