"""An orchestrator's start and its closing of jobs, as a process that can be killed: LEDGER STORE [--recover].

Prints each message as its receiver would see it, a line of JSON each.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from planrun.clock import SystemClock
from planrun.orchestrator.closer import Closer
from planrun.orchestrator.generations import Generations
from planrun.orchestrator.recovery import begin
from planrun.storage.filesystem import FilesystemStore
from planrun.wiring import chronicle_of, open_ledger


async def run(ledger_path: str, store_path: str, *, recover: bool) -> None:
    clock = SystemClock.open_system()
    ledger = open_ledger(ledger_path, clock=clock)
    try:
        chronicle, store = chronicle_of(ledger), FilesystemStore(Path(store_path))
        generations = Generations(chronicle, store, clock)
        await begin(chronicle, store, generations, recover=recover)
        closer = Closer(chronicle, store, generations)
        while (await chronicle.closing(limit=1)).manifests:
            await closer.tick(clock.boot_ms())
        closer.close()
        while messages := await ledger.take_messages(limit=100, retry_ms=1_000):
            for message in messages:
                print(message.body, flush=True)
                await ledger.confirm(message.msg_id)
        await generations.close()
    finally:
        await ledger.close()


asyncio.run(run(sys.argv[1], sys.argv[2], recover="--recover" in sys.argv))
