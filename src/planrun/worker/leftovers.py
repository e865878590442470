"""What workers of a fleet that are gone have left on this box: leases, processes, scratch folders, lock files.

The ledger is elsewhere and sees none of it. So each worker looks after what its dead neighbours and forerunners left.
Whoever gets the lock of a worker knows that it is dead, and its job trees; the ledger believes it of whoever knows the
secret that lies beside the lock, for this user alone. Then its leases are over at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from planrun.clock import Clock
from planrun.complaints import Complaints
from planrun.core.errors import LedgerUnavailable, LedgerUnusable
from planrun.ledger.contract import Ledger
from planrun.lockfile import drop, find_released, secret_beside
from planrun.orchestrator.scratch import ScratchCollector

LOOK_EVERY_S = 0.5
SCRATCH_EVERY_MS = 20_000

log = logging.getLogger(__name__)


class Leftovers:
    """Looks after one folder of lock files and one root of scratch."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        *,
        workers: Path,
        scratch: Path,
        clear: Callable[[str], None],
        who: str,
        proof_of_death: bool = True,
        is_well: Callable[[], Awaitable[bool]],
    ) -> None:
        """
        Args:
            workers: One lock file for each worker process of this box that serves the same ledger.
            clear: Ends what the killed launchers of a dead worker have left. Blocks.
            who: Of this worker, for the history.
            proof_of_death: End the leases of the dead; False: they run out.
            is_well: Has a probe found this machine well? Only then does a worker that broke give its leases up early.
        """
        self._ledger = ledger
        self._clock = clock
        self._workers = workers
        self._clear = clear
        self._who = who
        self._proof_of_death = proof_of_death
        self._is_well = is_well
        self._scratch = ScratchCollector(ledger, scratch)
        self._scratch_ms = 0
        self._complaints = Complaints(log, clock)

    async def run(self, stop: asyncio.Event) -> None:
        """Look now and then until `stop` is set."""
        while not stop.is_set():
            try:
                await self.tick(self._clock.boot_ms())
                self._complaints.over("leftovers")
            except (LedgerUnavailable, LedgerUnusable, OSError) as error:
                self._complaints.say("leftovers", f"what dead workers left stays for now: {error}")
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S):
                    await stop.wait()

    async def tick(self, now_ms: int) -> None:
        """Look once."""
        for lock in await asyncio.to_thread(find_released, self._workers):
            await asyncio.to_thread(self._clear, lock.name)
            if await self._bury(lock):
                drop(lock)
        if now_ms >= self._scratch_ms:
            await self._scratch.collect()
            self._scratch_ms = now_ms + SCRATCH_EVERY_MS

    async def _bury(self, lock: Path) -> bool:
        """End the leases of a dead worker. True: nothing is left that its files could prove."""
        secret = _secret_of(lock)
        if not self._proof_of_death or not secret:
            return True
        dead = await self._ledger.worker(lock.name)
        if dead is None:
            return True
        if dead.state == "broken" and await self._ledger.held(lock.name) and not await self._is_well():
            return False  # a machine in trouble does not get its jobs back at once: their leases run out
        while ended := await self._ledger.bury_own(lock.name, secret=secret, who=self._who):
            log.info("worker %s is dead: its lock was free; %d leases ended", dead.name, ended)
        return True


def _secret_of(lock: Path) -> str:
    try:
        return secret_beside(lock).read_text()
    except OSError:
        return ""
