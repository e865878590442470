"""Which workers live, for people: the ledger itself goes by leases and by proof of death alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from planrun.core.messages import WorkerRow
from planrun.core.presence import LOST_AFTER_MS
from planrun.lockfile import ProvenDead, prove_dead


def seems_dead(worker: WorkerRow, *, wall_ms: int) -> bool:
    """Is it proven dead, or has it been silent for too long?

    Args:
        wall_ms: Now, by the clock of `WorkerRow.seen_at_ms`.
    """
    # A missing lock file proves nothing to a ledger. For people: it was removed once its worker was proven dead.
    unlocked = bool(worker.lock_file) and not Path(worker.lock_file).exists()
    silent = wall_ms - worker.seen_at_ms > LOST_AFTER_MS
    return unlocked or silent or isinstance(prove_dead(worker), ProvenDead)


async def find_dead(workers: Iterable[WorkerRow], *, wall_ms: int) -> set[str]:
    """The incarnations of those that seem dead."""

    def find() -> set[str]:
        return {worker.incarnation for worker in workers if seems_dead(worker, wall_ms=wall_ms)}

    return await asyncio.to_thread(find)
