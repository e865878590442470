"""Recovery: a ledger that is an older copy learns from the store which answers were said after it was made.

Begun by taking a new generation, so that no token comes twice. Ended when every manifest is adopted. Until then nothing
is garbage and no door is open. Killed at any step, it goes on at the next start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from planrun.core.errors import LedgerUnusable
from planrun.core.manifests import Manifest, named_in
from planrun.ledger.chronicle import Chronicle
from planrun.orchestrator.closer import THREADS, read_manifest
from planrun.orchestrator.generations import Generations
from planrun.storage.contract import Store
from planrun.trip import trip

AT_ONCE_MAX = 500

_log = logging.getLogger("planrun.recovery")


async def begin(
    chronicle: Chronicle, store: Store, generations: Generations, *, recover: bool, strict: bool = True
) -> None:
    """Make sure that the ledger is the right one and lacks no answer. Called before any door opens and any duty runs.

    Args:
        recover: Begin a new generation, if this is an older copy.
        strict: The store lets one of several create an object, so that answers can be written down there first.

    Raises:
        LedgerUnusable: It must not be run as it is; says what was found and what to do.
        StorageError: The store does not say. Call it again.
    """
    history = await generations.enter(recover=recover)
    if history.recovering:  # begun just now, or before a crash
        await adopt_all(chronicle, store)
    if history.strict and not strict:
        raise LedgerUnusable(
            "this ledger writes its answers down in the store before it says them, and this store OVERWRITES what was "
            "written: use one that creates objects once (see `planrun check`)"
        )
    if strict and not history.strict:
        await chronicle.be_strict()


async def adopt_all(chronicle: Chronicle, store: Store) -> int:
    """Adopt every manifest that the ledger does not have, and would not have forgotten.

    Returns:
        How many were adopted.

    Raises:
        StorageError: The store does not say, or a manifest is damaged. What was adopted stays; call it again.
    """
    adopted = 0
    keys = await asyncio.to_thread(_manifests_of, store)
    with ThreadPoolExecutor(THREADS, thread_name_prefix="planrun-recovery") as threads:
        for page in _pages(keys):
            wanted = await chronicle.unadopted(list(page))
            reads = [asyncio.get_running_loop().run_in_executor(threads, _read, store, page[job]) for job in wanted]
            found = [manifest for manifest in await asyncio.gather(*reads) if manifest is not None]
            trip("recovery:read")
            adopted += await chronicle.adopt(found)
            trip("recovery:adopted")
    await chronicle.end_recovery()
    trip("recovery:ended")
    _log.warning("recovered: %d answers that were said after this copy was made are the answers again", adopted)
    return adopted


def _manifests_of(store: Store) -> dict[str, str]:
    """The key of each manifest, by its job."""
    return {job_id: key for key in store.keys("") if (job_id := named_in(key)) is not None}


def _pages(keys: dict[str, str]) -> Iterator[dict[str, str]]:
    left = iter(keys.items())
    while page := dict(islice(left, AT_ONCE_MAX)):
        yield page


def _read(store: Store, key: str) -> Manifest | None:
    data = store.read(key)
    return None if data is None else read_manifest(key, data)
