"""The collector: removes what lost attempts left behind, by the ledger's word only.

Nothing goes because it is old: the winner is old, too. Objects go if the ledger calls their attempt
garbage and does not name them; scratch folders go if their attempt is over and its process tree is
known to be dead. A dead worker needs no clean-up of its own.

Where something may still be written, or where a job may resume from, the collector comes again: soon at first, then
once an hour. That is remembered only; whoever has just started comes at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from planrun.core.errors import StorageError
from planrun.core.keeping import Garbage
from planrun.core.names import attempt_prefix
from planrun.ledger.contract import Ledger
from planrun.orchestrator.scratch import ScratchCollector
from planrun.storage.contract import Store

COLLECT_EVERY_MS = 20_000
REVISIT_MS_MAX = 3_600_000
AT_ONCE_MAX = 1_000


class _Visit(NamedTuple):
    """When an attempt's files are looked through next, boottime, and how long that is after the last time."""

    next_ms: int
    after_ms: int


class Collector:
    """Collects objects and scratch folders of one ledger."""

    def __init__(
        self,
        ledger: Ledger,
        store: Store,
        *,
        scratch: Path,
        gc_grace_s: float,
        dry_run: bool = False,
        tell: Callable[[str], None] = lambda name: None,
    ) -> None:
        """
        Args:
            scratch: Root of the attempts' folders *of this ledger*, each named by its token in hex. Two
                ledgers must never share one: their tokens are alike.
            gc_grace_s: How long objects of lost attempts stay, to help people look into them. Seconds.
            dry_run: Only tell, and remove nothing.
            tell: Called with the key of each object, and the path of each folder, that has gone.
        """
        self._ledger = ledger
        self._store = store
        self._scratch = ScratchCollector(ledger, scratch, dry_run=dry_run, tell=tell)
        self._grace_ms = round(gc_grace_s * 1000)
        self._dry_run = dry_run
        self._tell = tell
        self._visits: dict[int, _Visit] = {}  # by token, of attempts that are not final

    async def tick(self, now_ms: int) -> int:
        """Collect once.

        Returns:
            When to collect again, boottime milliseconds.
        """
        await self._scratch.collect()
        failed: StorageError | None = None
        done = 0
        visits = {token: visit for token, visit in self._visits.items() if visit.next_ms > now_ms}
        for garbage in await self._ledger.garbage(grace_ms=self._grace_ms, limit=AT_ONCE_MAX, visited=tuple(visits)):
            try:
                await asyncio.to_thread(self._delete_objects, garbage)
            except StorageError as error:
                failed = error
                continue
            if garbage.final and not self._dry_run:  # else its prefix is visited again
                await self._ledger.collected(garbage.lease)
                done += 1
            elif not garbage.final:
                visits[garbage.lease.token] = self._next_visit(garbage.lease.token, now_ms)
                done += 1
        self._visits = visits
        if failed is not None:
            raise failed
        # A whole page that does not come again at once is followed by another one.
        return now_ms if done == AT_ONCE_MAX else now_ms + COLLECT_EVERY_MS

    def _next_visit(self, token: int, now_ms: int) -> _Visit:
        last = self._visits.get(token)
        after_ms = COLLECT_EVERY_MS if last is None else min(2 * last.after_ms, REVISIT_MS_MAX)
        return _Visit(now_ms + after_ms, after_ms)

    def _delete_objects(self, garbage: Garbage) -> None:
        lease = garbage.lease
        prefix = attempt_prefix(garbage.namespace, lease.job_id, lease.attempt, lease.token)
        for key in self._store.keys(prefix):
            if key not in garbage.keep:
                if not self._dry_run:
                    self._store.delete(key)
                self._tell(key)
