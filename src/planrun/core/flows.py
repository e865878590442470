"""What travels over a transport beside offers, heartbeats and answers, and who shares a lane.

A lane is what machines that can run exactly the same share: any of them may take what is offered there.
"""

from __future__ import annotations

from planrun.core.messages import Lease, Standing, Struct, WorkerRow
from planrun.core.names import digest


class Marker(Struct, kw_only=True):
    """Sent into the heartbeats' own way, after a lease ran out: whoever meets it has seen every earlier heartbeat.

    Attributes:
        stamp_ms: Boottime of the orchestrator when it was made. Leases that ran out by then may be ended.
        nonce: Tells it from every other marker.
    """

    stamp_ms: int
    nonce: str


class Notice(Struct, kw_only=True):
    """A word to a worker.

    Attributes:
        lease, standing: How that lease stands; without a standing it may have ended: ask.
        drained: An operator has drained the worker, or undone it.
    """

    lease: Lease | None = None
    standing: Standing | None = None
    drained: bool | None = None


class Astray(Struct, kw_only=True):
    """An attempt that was ended over the head of its worker, who is not known to have stopped it.

    Attributes:
        status, why: As in `Standing`.
    """

    incarnation: str
    lease: Lease
    status: str
    why: str = ""


def lane_of(row: WorkerRow) -> str:
    """The lane of a worker: a digest of its namespaces, of what it can run and of what it is."""
    handlers = sorted(f"{each.kind}\0{each.version}" for each in row.handlers if not each.missing)
    parts = ["\0".join(sorted(row.namespaces)), "\1".join(handlers), "\0".join(sorted(row.capabilities))]
    return digest("\2".join(parts))[:16]
