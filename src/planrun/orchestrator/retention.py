"""Retention: drops what was kept long enough, the ledger's word first.

A result goes from its row before its files go, which the collector removes as it removes those of lost
attempts. A job goes when its result and all its files are gone, and after its record is durable in the
archive. Its ids are forgotten after its manifest has left the store. Nothing goes of which a message is
still owed, nor while the wall clock is doubted.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import structs

from planrun.core.durations import span
from planrun.core.keeping import BATCH_MAX, Keep, Stale
from planrun.ledger.contract import Ledger
from planrun.orchestrator.archive import Archive
from planrun.storage.contract import Store
from planrun.trip import trip

LOOK_EVERY_MS = 300_000
BETWEEN_BATCHES_MS = 100  # so that whoever submits or settles gets in between

_log = logging.getLogger("planrun.retention")


class Retention:
    """Drops and archives what is stale in one ledger. Several processes may: one at a time does."""

    def __init__(
        self,
        ledger: Ledger,
        store: Store,
        archive: Archive,
        *,
        keep: Keep | None,
        logs: Path,
        believe_clock: bool = False,
        tell: Callable[[str], None] = lambda what: None,
    ) -> None:
        """
        Args:
            keep: What this process is told about it, for all who look after this ledger; None: as they were told.
            logs: Root of what the jobs printed; a job's folder goes with its job.
            believe_clock: Go by the wall clock even while it is doubted.
            tell: Called with each thing that has gone, in words.
        """
        self._ledger = ledger
        self._store = store
        self._archive = archive
        self._keep = keep
        self._logs = logs
        self._believe_clock = believe_clock
        self._tell = tell
        self._doubted = False

    async def tick(self, now_ms: int) -> int:
        """Drop one batch.

        Returns:
            When to look again, boottime milliseconds.
        """
        if self._keep is not None:
            await self._ledger.keep(self._keep)
            self._keep = None
        if await self.is_held_up():
            return now_ms + LOOK_EVERY_MS
        with self._archive.alone() as is_ours:
            if not is_ours:
                return now_ms + LOOK_EVERY_MS
            stale = await self._ledger.stale(limit=BATCH_MAX)
            if stale.most:
                await self._drop(stale)
        return now_ms + (BETWEEN_BATCHES_MS if stale.most == BATCH_MAX else LOOK_EVERY_MS)

    async def _drop(self, stale: Stale) -> None:
        records = await self._ledger.records(stale.jobs)
        if records:
            await asyncio.to_thread(self._archive.add, records)
            trip("retention:archived")
            for record in records:
                await asyncio.to_thread(self._remove_log, record.job_id)
        seen = {record.job_id: record.seen for record in records}
        self._say(await self._ledger.drop(structs.replace(stale, ids=()), archived=seen))
        if stale.ids:  # last, for the store may be away
            await asyncio.to_thread(self._delete, stale.manifests)
            self._say(await self._ledger.drop(Stale(ids=stale.ids), archived={}))

    def _say(self, gone: Stale) -> None:
        for what in in_words(gone):
            self._tell(what)

    def _delete(self, manifests: Sequence[str]) -> None:
        """Whoever uses the id of one of these jobs again shall not get its old answer."""
        for key in manifests:
            self._store.delete(key)

    def _remove_log(self, job_id: str) -> None:
        folder = self._logs / job_id
        try:
            shutil.rmtree(folder)
        except FileNotFoundError:
            pass
        except OSError as error:
            _log.warning("the log %s cannot be removed; remove it by hand: %s", folder, error)

    async def is_held_up(self) -> bool:
        """Is the wall clock doubted, so that nothing goes? Says so once, and only if it makes a difference."""
        doubt_ms = await self._ledger.doubt()
        if not doubt_ms or self._believe_clock:
            self._doubted = False
            return False
        if not self._doubted and (await self._ledger.stale(limit=1)).most:
            self._doubted = True
            _log.warning(
                "the wall clock was stepped, or is not known for long: nothing is dropped for another %s; "
                "`planrun gc --now` does not wait",
                span(doubt_ms),
            )
        return True


def in_words(stale: Stale) -> list[str]:
    """Each thing, for people."""
    return [
        *(f"result of job {job_id}" for job_id in stale.results),
        *(f"job {job_id}, to the archive" for job_id in stale.jobs),
        *(f"message {msg_id}" for msg_id in stale.messages),
        *(f"archived id {job_id}" for job_id in stale.ids),
        *(f"worker {incarnation}" for incarnation in stale.workers),
    ]
