"""What any process that has the ledger open can do for all: sweep, write answers down, announce, collect, drop.

Small loops, so that a receiver that does not answer delays no lease, and a full store no
answer. A loop that fails says so, now and then, and goes on: everything is looked at afresh each time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from planrun.clock import Clock
from planrun.core.errors import PlanrunError
from planrun.ledger.contract import Ledger
from planrun.orchestrator.closer import Closer
from planrun.orchestrator.collector import Collector
from planrun.orchestrator.generations import Generations
from planrun.orchestrator.outbox import Outbox
from planrun.orchestrator.retention import Retention
from planrun.orchestrator.sweeper import Sweeper
from planrun.orchestrator.watch import Watch

AFTER_ERROR_S = 1.0
BETWEEN_LOOKS_S = 0.02
SAME_ERROR_EVERY_MS = 60_000
LAST_DELIVERY_S = 2.0

_log = logging.getLogger("planrun.duties")


class Duties:
    """Runs sweeper, outbox, collector and retention."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        *,
        sweeper: Sweeper,
        outbox: Outbox,
        collector: Collector | None,
        retention: Retention | None = None,
        closer: Closer | None = None,
        generations: Generations | None = None,
    ) -> None:
        """
        Args:
            collector, retention: None where this process may not delete files.
            closer, generations: None where the ledger is not strict, and nobody else could have a copy of it.
        """
        self._ledger = ledger
        self._clock = clock
        self._sweeper = sweeper
        self._outbox = outbox
        self._collector = collector
        self._retention = retention
        self._closer = closer
        self._generations = generations
        self._delivering = asyncio.Lock()
        self._watch = Watch(sweeper.bury_if_dead, clock)
        self._told_at_ms: dict[str, int] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Do all duties until `stop` is set. What is under way then is left to the next process.

        But answers that are being delivered get a moment: cut off, they would go out again, and only after a while.
        """
        loops = [self._repeat("sweep", self._sweep, self._wait_for_change)]
        loops.append(self._repeat("announce", self._announce, self._wait_for_change))
        if self._collector is not None:
            loops.append(self._repeat("collect", partial(self._collect, self._collector), self._wait_until))
        if self._retention is not None:
            loops.append(self._repeat("drop what is kept long enough", self._retention.tick, self._wait_until))
        if self._closer is not None:
            loops.append(self._repeat("write answers down", self._closer.tick, self._wait_for_change))
        if self._generations is not None:
            loops.append(self._repeat("say how far the ledger is", self._generations.tick, self._wait_until))
        tasks = [asyncio.create_task(loop) for loop in loops]
        try:
            await stop.wait()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._delivering.acquire(), LAST_DELIVERY_S)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._watch.close()
            await self._outbox.close()
            if self._closer is not None:
                self._closer.close()
            if self._generations is not None:
                await self._generations.close()

    async def _sweep(self, now_ms: int) -> int:
        next_ms = await self._sweeper.tick(now_ms)
        self._watch.follow(self._sweeper.holders)
        return next_ms

    async def _collect(self, collector: Collector, now_ms: int) -> int:
        await self._sweeper.bury_idle()
        return await collector.tick(now_ms)

    async def _announce(self, now_ms: int) -> int:
        async with self._delivering:
            return await self._outbox.tick(now_ms)

    async def _repeat(
        self, what: str, tick: Callable[[int], Awaitable[int]], wait: Callable[[int], Awaitable[None]]
    ) -> None:
        while True:
            try:
                await wait(await tick(self._clock.boot_ms()))
            except Exception as error:
                self._tell(what, error)
                await self._clock.sleep(AFTER_ERROR_S)

    async def _wait_for_change(self, until_ms: int) -> None:
        """Also a change by others may have made something due. Changes that come in a burst count once.

        Whoever takes a job that has just come reads before the duties do.
        """
        wait_ms = until_ms - self._clock.boot_ms()
        if wait_ms > 0:
            await self._ledger.changed(timeout_s=wait_ms / 1000)
        left_s = max(0, until_ms - self._clock.boot_ms()) / 1000
        await self._clock.sleep(min(BETWEEN_LOOKS_S, left_s) if wait_ms > 0 else BETWEEN_LOOKS_S)

    async def _wait_until(self, until_ms: int) -> None:
        await self._clock.sleep(max(0, until_ms - self._clock.boot_ms()) / 1000)

    def _tell(self, what: str, error: Exception) -> None:
        """Say it once a minute: a full disk must not fill the log, too."""
        now_ms = self._clock.boot_ms()
        if now_ms < self._told_at_ms.get(what, -SAME_ERROR_EVERY_MS) + SAME_ERROR_EVERY_MS:
            return
        self._told_at_ms[what] = now_ms
        if isinstance(error, PlanrunError):
            _log.warning("could not %s, and will try again: %s", what, error)
        else:
            _log.error("could not %s, and will try again", what, exc_info=error)
