"""What decides when a job runs, for people who ask."""

from __future__ import annotations

from planrun.core.coverage import OpenJobs
from planrun.core.life import State
from planrun.core.messages import JobRow, WorkerRow
from planrun.core.pauses import find_pause
from planrun.core.routing import CAPABILITY_TTL_MS, Offered, find_route
from planrun.core.why import AHEAD_MAX, Ahead, Outlook
from planrun.ledger.tx import Tx, dump, one
from planrun.ledger.verbs import answers, reading
from planrun.ledger.verbs.fleet import declared, offering, running, workers
from planrun.ledger.verbs.pausing import open_pauses


def outlook(tx: Tx, job_id: str) -> Outlook | None:
    """Everything that `core.why` looks at; None: no job has this id."""
    row = one(tx, "job_row", job_id=job_id, namespace=None)
    if row is None:
        return None
    job = reading.job_row(row)
    attempts = reading.attempts(tx, job.job_id)
    result = answers.find_result(tx, job.job_id)
    fleet = tuple(workers(tx, since_ms=tx.now.wall_ms - CAPABILITY_TTL_MS))
    return Outlook(
        job=job,
        workers=fleet,
        declared=declared(tx),
        taken=running(tx),
        ahead=_ahead(tx, job, fleet) if job.state is State.QUEUED else {},
        pause=find_pause(open_pauses(tx), namespace=job.namespace, kind=job.kind),
        offering=offering(tx, job.kind),
        last=attempts[-1] if attempts else None,
        error=result.error if result is not None else None,
    )


def open_jobs(tx: Tx) -> list[OpenJobs]:
    """How many jobs of each kind and version have not ended."""
    return [OpenJobs(**row) for row in tx.rows("open_jobs")]


def _ahead(tx: Tx, job: JobRow, fleet: tuple[WorkerRow, ...]) -> dict[str, Ahead]:
    route = find_route(
        fleet, namespace=job.namespace, kind=job.kind, version=job.version, needs=job.needs, now_ms=tx.now.wall_ms
    )
    able = route.incarnations if isinstance(route, Offered) else ()
    return {worker.incarnation: _ahead_at(tx, job, worker) for worker in fleet if worker.incarnation in able}


def _ahead_at(tx: Tx, job: JobRow, worker: WorkerRow) -> Ahead:
    """What would be offered to this worker before the job: the order of `offers`."""
    pauses = open_pauses(tx)
    sets = [
        {"namespace": namespace, "kind": handler.kind, "version": handler.version}
        for namespace in worker.namespaces
        for handler in worker.handlers
        if not handler.missing and find_pause(pauses, namespace=namespace, kind=handler.kind) is None
    ]
    asked = {"job_id": job.job_id, "capabilities": dump(worker.capabilities), "limit": AHEAD_MAX}
    found = [row for of in sets for row in tx.rows("ahead", priority=job.priority, **asked, **of)]
    return Ahead(
        urgent=sum(row["urgent"] for row in found),
        older=sum(row["older"] for row in found),
        elders=sum(row["elders"] for of in sets for row in tx.rows("elders", **asked, **of)),
    )
