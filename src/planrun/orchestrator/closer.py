"""The closer: lets each answer stand in the store before anybody gets it.

An ended job of a strict ledger is closing: everybody sees it run. The closer makes the high-water mark and the
manifests, many at once, and then tells the ledger what stands there, in one transaction. From then on the answer is
said through every door. A store that is away delays that, and nothing else: jobs go on and settle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from planrun.core.errors import StorageError
from planrun.core.generations import Mark
from planrun.core.manifests import Manifest, manifest_key, manifest_of
from planrun.ledger.chronicle import Chronicle
from planrun.orchestrator.generations import Generations
from planrun.storage.contract import Store
from planrun.trip import trip

AT_ONCE_MAX = 256
THREADS = 16
LOOK_EVERY_MS = 5_000  # any change of the ledger wakes it up earlier


class Closer:
    """Closes what has ended. Belongs to one event loop."""

    def __init__(self, chronicle: Chronicle, store: Store, generations: Generations) -> None:
        self._chronicle = chronicle
        self._store = store
        self._generations = generations
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="planrun-closer")
        self._after = 0  # so that what cannot be written holds nothing up behind it

    async def tick(self, now_ms: int) -> int:
        """Close what has ended, a page of it. Page by page it goes round.

        Returns:
            When to look again, boottime milliseconds; earlier after any change of the ledger.

        Raises:
            StorageError: Some manifests could not be written; the others are closed. They are tried again.
        """
        after = self._after
        closing = await self._chronicle.closing(after=after, limit=AT_ONCE_MAX)
        self._after = closing.last
        if not closing.manifests:
            return now_ms if after else now_ms + LOOK_EVERY_MS
        trip("closing:found")
        await self._generations.reach(Mark(generation=closing.generation, n=closing.n))
        stands, failed = await self._stand(closing.manifests)
        trip("closing:stands")
        if stands:
            await self._chronicle.adopt(stands)
            trip("closing:said")
        if failed is not None:
            raise failed
        return now_ms

    def close(self) -> None:
        """Begin no more writes."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _stand(self, manifests: Sequence[Manifest]) -> tuple[list[Manifest], StorageError | None]:
        loop = asyncio.get_running_loop()
        puts = [loop.run_in_executor(self._threads, self._put, manifest) for manifest in manifests]
        ends = await asyncio.gather(*puts, return_exceptions=True)
        stands: list[Manifest] = []
        failed: StorageError | None = None
        for end in ends:
            if isinstance(end, Manifest):
                stands.append(end)
            elif isinstance(end, StorageError):
                failed = end
            else:
                raise end
        return stands, failed

    def _put(self, manifest: Manifest) -> Manifest:
        key = manifest_key(manifest.result.namespace, manifest.result.job_id)
        there = self._store.put_if_absent(key, msgspec.json.encode(manifest))
        return read_manifest(key, there)


def read_manifest(key: str, data: bytes) -> Manifest:
    """The manifest that stands there.

    Raises:
        StorageError: What stands there is none of that job.
    """
    manifest = manifest_of(key, data)
    if manifest is None:
        raise StorageError(
            f"{key} is damaged: that is no manifest of this job; restore it from a copy of the store, or remove it"
        )
    return manifest
