"""What any process that has the ledger open can do for all: sweep, write answers down, announce, collect, drop.

Small loops, so that a receiver that does not answer delays no lease, and a full store no
answer. A loop that fails says so, now and then, and goes on: everything is looked at afresh each time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from planrun.clock import Clock
from planrun.core.errors import PlanrunError
from planrun.ledger.contract import Ledger
from planrun.orchestrator.collector import Collector
from planrun.orchestrator.outbox import Outbox
from planrun.orchestrator.retention import Retention
from planrun.orchestrator.sweeper import Sweeper
from planrun.orchestrator.watch import Watch
from planrun.service import Returns

AFTER_ERROR_S = 1.0
BETWEEN_LOOKS_S = 0.02
SAME_ERROR_EVERY_MS = 60_000
LAST_DELIVERY_S = 2.0

_log = logging.getLogger("planrun.duties")


class Loop(NamedTuple):
    """One more thing to do again and again.

    Attributes:
        what: For the log: "could not …".
        tick: Does it once, given boottime milliseconds; returns when to do it again.
        on_change: Also as soon as the ledger changes.
        at_once: On a change it looks first and rests then, for a worker waits for it.
        is_vital: Leases hang on it: a process in which it is stuck is to be started anew.
    """

    what: str
    tick: Callable[[int], Awaitable[int]]
    on_change: bool = True
    at_once: bool = False
    is_vital: bool = False


class Duties:
    """Runs sweeper, outbox, collector and retention, and what else there is.

    Attributes:
        returns: By when each vital loop comes back.
    """

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        *,
        sweeper: Sweeper,
        outbox: Outbox | None,
        collector: Collector | None = None,
        retention: Retention | None = None,
        more: Sequence[Loop] = (),
    ) -> None:
        """
        Args:
            outbox: None where others announce the answers.
            collector, retention: None where this process may not delete files.
            more: What only some orchestrators do.
        """
        self._ledger = ledger
        self._clock = clock
        self._sweeper = sweeper
        self._outbox = outbox
        self._collector = collector
        self._retention = retention
        self._more = more
        self._delivering = asyncio.Lock()
        self._watch = Watch(sweeper.bury_if_dead, clock)
        self._told_at_ms: dict[str, int] = {}
        self.returns = Returns()

    async def run(self, stop: asyncio.Event) -> None:
        """Do all duties until `stop` is set. What is under way then is left to the next process.

        But answers that are being delivered get a moment: cut off, they would go out again, and only after a while.
        """
        loops = [Loop("sweep", self._sweep, is_vital=True), *self._more]
        if self._outbox is not None:
            loops.append(Loop("announce", partial(self._announce, self._outbox)))
        if self._collector is not None:
            loops.append(Loop("collect", partial(self._collect, self._collector), on_change=False))
        if self._retention is not None:
            loops.append(Loop("drop what is kept long enough", self._retention.tick, on_change=False))
        tasks = [asyncio.create_task(self._repeat(loop)) for loop in loops]
        try:
            await stop.wait()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._end_delivering(), LAST_DELIVERY_S)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._watch.close()
            if self._outbox is not None:
                await self._outbox.close()

    async def _sweep(self, now_ms: int) -> int:
        next_ms = await self._sweeper.tick(now_ms)
        self._watch.follow(self._sweeper.holders)
        return next_ms

    async def _collect(self, collector: Collector, now_ms: int) -> int:
        await self._sweeper.bury_idle()
        return await collector.tick(now_ms)

    async def _announce(self, outbox: Outbox, now_ms: int) -> int:
        async with self._delivering:
            return await outbox.tick(now_ms)

    async def _end_delivering(self) -> None:
        """Let nothing more go out, and wait for what has."""
        await self._delivering.acquire()
        if self._outbox is not None:
            await self._outbox.wait_until_idle()

    async def _repeat(self, loop: Loop) -> None:
        wait = self._wait_for_change if loop.on_change else self._wait_until
        if loop.at_once:
            wait = self._rest_and_wait_for_change
        while True:
            try:
                next_ms = await loop.tick(self._begin(loop))
                if loop.is_vital:
                    self.returns.say(loop.what, next_ms)
                await wait(next_ms)
            except Exception as error:
                self._tell(loop.what, error)
                await self._clock.sleep(AFTER_ERROR_S)

    def _begin(self, loop: Loop) -> int:
        now_ms = self._clock.boot_ms()
        if loop.is_vital:
            self.returns.say(loop.what, now_ms)
        return now_ms

    async def _wait_for_change(self, until_ms: int) -> None:
        """Also a change by others may have made something due. Changes that come in a burst count once.

        Whoever takes a job that has just come reads before the duties do.
        """
        wait_ms = until_ms - self._clock.boot_ms()
        if wait_ms > 0:
            await self._ledger.changed(timeout_s=wait_ms / 1000)
        left_s = max(0, until_ms - self._clock.boot_ms()) / 1000
        await self._clock.sleep(min(BETWEEN_LOOKS_S, left_s) if wait_ms > 0 else BETWEEN_LOOKS_S)

    async def _rest_and_wait_for_change(self, until_ms: int) -> None:
        """As `_wait_for_change`, but the first change of a burst is looked at by itself, without any delay."""
        await self._clock.sleep(BETWEEN_LOOKS_S)
        wait_ms = until_ms - self._clock.boot_ms()
        if wait_ms > 0:
            await self._ledger.changed(timeout_s=wait_ms / 1000)

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
