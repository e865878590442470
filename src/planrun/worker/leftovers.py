"""What workers of a fleet that are gone have left on this box: processes, scratch folders, lock files.

The ledger is elsewhere and sees none of it. So each worker looks after what its dead neighbours and forerunners left.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from planrun.clock import Clock
from planrun.core.errors import LedgerUnavailable, LedgerUnusable
from planrun.ledger.contract import Ledger
from planrun.lockfile import find_released
from planrun.orchestrator.scratch import ScratchCollector
from planrun.worker.complaints import Complaints

LOOK_EVERY_S = 20.0

log = logging.getLogger(__name__)


class Leftovers:
    """Looks after one folder of lock files and one root of scratch."""

    def __init__(
        self, ledger: Ledger, clock: Clock, *, workers: Path, scratch: Path, clear: Callable[[str], None]
    ) -> None:
        """
        Args:
            workers: One lock file for each worker process of this box that serves the same ledger.
            clear: Ends what the killed launchers of a dead worker have left. Blocks.
        """
        self._clock = clock
        self._workers = workers
        self._clear = clear
        self._scratch = ScratchCollector(ledger, scratch)
        self._complaints = Complaints(log, clock)

    async def run(self, stop: asyncio.Event) -> None:
        """Look now and then until `stop` is set."""
        while not stop.is_set():
            try:
                await self.tick()
                self._complaints.over("leftovers")
            except (LedgerUnavailable, LedgerUnusable, OSError) as error:
                self._complaints.say("leftovers", f"what dead workers left stays for now: {error}")
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S):
                    await stop.wait()

    async def tick(self) -> None:
        """Look once."""
        for path in await asyncio.to_thread(find_released, self._workers):
            await asyncio.to_thread(self._clear, path.name)
            path.unlink(missing_ok=True)
        await self._scratch.collect()
