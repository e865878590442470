"""Which workers live, for people: the ledger itself goes by leases and by proof of death alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from planrun.core.messages import WorkerRow
from planrun.lockfile import seems_dead


async def find_dead(workers: Iterable[WorkerRow], *, wall_ms: int) -> set[str]:
    """The incarnations of those that seem dead."""

    def find() -> set[str]:
        return {worker.incarnation for worker in workers if seems_dead(worker, wall_ms=wall_ms)}

    return await asyncio.to_thread(find)
