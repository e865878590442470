"""A process that drops and archives what is stale in one ledger, until nothing is."""

from __future__ import annotations

import asyncio
import sys

from planrun.config import place_of
from planrun.core.keeping import Keep
from planrun.orchestrator.archive import Archive
from planrun.orchestrator.retention import LOOK_EVERY_MS, Retention
from planrun.storage.filesystem import FilesystemStore
from planrun.wiring import open_ledger


async def main(url: str) -> None:
    place = place_of(url)
    ledger = open_ledger(url)
    store, archive = FilesystemStore(place.store), Archive(place.archive)
    retention = Retention(
        ledger, store, archive, keep=Keep(job_ttl_s=0), logs=place.logs, believe_clock=True, tell=print
    )
    while await retention.tick(0) < LOOK_EVERY_MS:
        pass
    await ledger.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
