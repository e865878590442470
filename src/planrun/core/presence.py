"""A worker as it is, not as it last said of itself: whoever was killed says nothing any more.

"lost" is for people. The ledger takes jobs over by leases and by proof of death alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from planrun.core.messages import Handler, Struct, WorkerRow

LOST_AFTER_MS = 60_000  # a default lease; two of the longest heartbeats
FORGOTTEN_AFTER_MS = 24 * 3600 * 1000  # then nobody asks for it any more


class Presence(Struct, kw_only=True):
    """One worker.

    Attributes:
        state: `ready`, `draining`, `broken`; `gone` if it left as it was asked to; `lost` if it died or fell silent.
        running: The leases that it holds now.
        silent_ms: How long ago it was seen.
    """

    incarnation: str
    name: str
    state: str
    running: int
    slots: int
    seen_at_ms: int
    silent_ms: int
    host: str
    pid: int
    namespaces: tuple[str, ...]
    handlers: tuple[Handler, ...]
    capabilities: tuple[str, ...]


def presence(
    workers: Iterable[WorkerRow], *, running: Mapping[str, int], dead: Collection[str], wall_ms: int
) -> list[Presence]:
    """Each worker as it is, in the order given.

    Args:
        running: Leases by incarnation.
        dead: Incarnations that are known, or taken, to be dead.
        wall_ms: Now, by the clock of `WorkerRow.seen_at_ms`.
    """
    return [
        Presence(
            incarnation=worker.incarnation,
            name=worker.name,
            state=state_of(worker, running=worker.incarnation in running, dead=worker.incarnation in dead),
            running=running.get(worker.incarnation, 0),
            slots=worker.slots,
            seen_at_ms=worker.seen_at_ms,
            silent_ms=max(0, wall_ms - worker.seen_at_ms),
            host=worker.host,
            pid=worker.pid,
            namespaces=worker.namespaces,
            handlers=worker.handlers,
            capabilities=worker.capabilities,
        )
        for worker in workers
    ]


def state_of(worker: WorkerRow, *, running: bool, dead: bool) -> str:
    """The `Presence.state` of one worker.

    Args:
        running: It holds a lease.
        dead: It is known, or taken, to be dead.
    """
    if not dead:
        return worker.state
    left = worker.state in ("draining", "gone") and not running
    return "gone" if left else "lost"
