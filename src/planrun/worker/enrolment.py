"""A worker stays known: a ledger that was restored from a backup may never have heard of it, and grants it nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from planrun.clock import Clock
from planrun.core.errors import LedgerUnavailable, LedgerUnusable
from planrun.core.messages import WorkerRow
from planrun.ledger.contract import Ledger

LOOK_EVERY_S = 1.0
ASK_EVERY_MS = 300_000  # while nothing is heard of the ledger's generation, as with a broker and nothing to do


class Enrolment:
    """Of one worker, in a fleet."""

    def __init__(self, ledger: Ledger, clock: Clock, row: WorkerRow, *, generation: Callable[[], int]) -> None:
        """
        Args:
            generation: The highest generation of the ledger that was met. A new one has been recovered.
        """
        self._ledger = ledger
        self._clock = clock
        self._row = row
        self._generation = generation
        self._seen = generation()
        self._ask_ms = clock.boot_ms() + ASK_EVERY_MS

    async def run(self, stop: asyncio.Event) -> None:
        """Stay known until `stop` is set."""
        while not stop.is_set():
            with suppress(LedgerUnavailable, LedgerUnusable):  # said by whoever asks it for work
                await self.tick(self._clock.boot_ms())
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S):
                    await stop.wait()

    async def tick(self, now_ms: int) -> None:
        """Register anew where the ledger has lost the worker. What it is otherwise, such as draining, it says."""
        met = self._generation()
        if met == self._seen and now_ms < self._ask_ms:
            return
        if await self._ledger.worker(self._row.incarnation) is None:
            await self._ledger.register(self._row)
        self._seen, self._ask_ms = met, now_ms + ASK_EVERY_MS
