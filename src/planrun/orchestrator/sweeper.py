"""The sweeper: ends what has run out. Leases, waits, deadlines, workers that are proven dead.

It is level-triggered: every tick looks at what *is* due, so a tick that failed is simply repeated.
Any process that has the ledger open may sweep; two sweepers do no harm.

The stamp against which leases expire is read before the ledger is asked. A lease that could not be
renewed only because the ledger was locked meanwhile is therefore not taken.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from planrun.core.messages import Due, WorkerRow
from planrun.ledger.contract import Ledger
from planrun.lockfile import ProvenDead, forget, prove_dead
from planrun.orchestrator.expiry import EXPIRY_AHEAD_MS, Expiry, PlainExpiry

LOOK_AT_LEAST_EVERY_MS = 5_000
LOOK_AGAIN_AFTER_MS = 250
UNSUPPORTED_NOT_BEFORE_MS = 120_000
UNSUPPORTED_EVERY_MS = 60_000
UNSUPPORTED_AFTER_MS = 3_600_000
GAP_MS = 5_000
GAP_GRACE_MS = 5_000

_log = logging.getLogger("planrun.sweeper")


def next_look_ms(due: Due, now_ms: int) -> int:
    """When to look at the ledger again if nobody changes it, boottime milliseconds.

    A time that has passed was just acted upon, which wakes everybody up, or could not be: then not in a rush.
    """
    latest_ms = now_ms + LOOK_AT_LEAST_EVERY_MS
    if due.next_ms is None:
        return latest_ms
    if due.next_ms <= now_ms:
        return now_ms + LOOK_AGAIN_AFTER_MS
    ahead_ms = latest_ms if due.lease_ms is None else due.lease_ms - EXPIRY_AHEAD_MS
    return min(due.next_ms, latest_ms, ahead_ms if ahead_ms > now_ms else latest_ms)


class Sweeper:
    """One look at what is due, and what follows from it."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        incarnation: str = "",
        expiry: Expiry | None = None,
        proof_of_death: bool = True,
        clear: Callable[[str], None] = lambda incarnation: None,
        warm_after_ms: int | None = None,
        ends_unsupported: bool = True,
    ) -> None:
        """
        Args:
            warm_after_ms: So long after the first look, jobs that came since are judged like those that come later:
                what no known machine could ever run fails. None: on one box they wait for a worker to be started.
            incarnation: Of the worker that sweeps: it never tries to prove itself dead.
            expiry: How leases end; None: as on one box.
            clear: Ends what the killed launchers of a dead worker have left, and removes its folders. Blocks.
            proof_of_death: End the leases of a provably dead worker at once, not only when they run out.
            ends_unsupported: Fail what no known worker could run; False: that is for others to say.
        """
        self._ledger = ledger
        self._incarnation = incarnation
        self._expiry = expiry if expiry is not None else PlainExpiry(ledger)
        self._proof_of_death = proof_of_death
        self._clear = clear
        self._holders: tuple[WorkerRow, ...] = ()
        self._expected_ms: int | None = None
        self._hold_until_ms = 0
        self._unsupported_at_ms: int | None = None
        self._warm_after_ms = warm_after_ms
        self._ends_unsupported = ends_unsupported

    @property
    def holders(self) -> tuple[WorkerRow, ...]:
        """Other workers that held something at the last look and whose death could not be proven then."""
        return self._holders

    async def tick(self, now_ms: int) -> int:
        """Look once, and act.

        Args:
            now_ms: Boottime milliseconds, read just now.

        Returns:
            When to look again, boottime milliseconds; earlier after any change of the ledger.
        """
        self._mind_the_gap(now_ms)
        due = await self._ledger.due()
        if due.foreign_epoch:
            await self._ledger.adopt_epoch()
        elif now_ms >= self._hold_until_ms:
            await self._expiry.tick(now_ms, due.lease_ms)
        if due.promotable:
            await self._ledger.promote()
        if due.deadlines:
            await self._ledger.end_overdue()
        if self._ends_unsupported:
            await self._end_unsupported(now_ms)
        await self._prove(due.holders)

        self._expected_ms = next_look_ms(due, now_ms)
        return self._expected_ms

    async def bury_if_dead(self, holder: WorkerRow) -> bool:
        """End the leases of a worker if its death is proven.

        A worker that broke (`Fatal`) is the exception: its neighbours' leases run out by themselves, so
        that a machine in trouble does not get them back at once.
        """
        if not isinstance(prove_dead(holder), ProvenDead):
            return False
        if holder.state == "broken" and await self._ledger.held(holder.incarnation):
            return False
        # A free lock says that the launchers are gone. One that was killed may have left processes behind.
        await asyncio.to_thread(self._clear, holder.incarnation)
        ended = await self._ledger.bury(holder.incarnation, who=self._incarnation or "sweeper")
        _log.info("worker %s is dead: its lock was free; %d leases ended", holder.name, ended)
        if not await self._ledger.held(holder.incarnation):  # nothing is left that the file would have to prove
            forget(holder)
        return True

    async def bury_idle(self) -> None:
        """Bury also those that died while they held nothing: no lease waits for that, but what they left does."""
        if not self._proof_of_death:
            return
        for worker in await self._ledger.workers():
            if worker.incarnation != self._incarnation:  # those buried before have no lock file any more
                await self.bury_if_dead(worker)

    async def _prove(self, holders: Sequence[WorkerRow]) -> None:
        if not self._proof_of_death:
            return
        others = [holder for holder in holders if holder.incarnation != self._incarnation]
        self._holders = tuple([holder for holder in others if not await self.bury_if_dead(holder)])

    async def _end_unsupported(self, now_ms: int) -> None:
        """Rarely, and not before a fleet that starts together had the time to register."""
        if self._unsupported_at_ms is None:
            cold_ms = UNSUPPORTED_NOT_BEFORE_MS if self._warm_after_ms is None else self._warm_after_ms
            self._unsupported_at_ms = now_ms + cold_ms
        if now_ms >= self._unsupported_at_ms:
            if self._warm_after_ms is not None:
                came_cold_ms = now_ms - self._unsupported_at_ms + self._warm_after_ms
                while await self._ledger.end_unsupported(waited_ms=0, waited_ms_max=came_cold_ms):
                    pass
                self._warm_after_ms = None
            await self._ledger.end_unsupported(waited_ms=UNSUPPORTED_AFTER_MS)
            self._unsupported_at_ms = now_ms + UNSUPPORTED_EVERY_MS

    def _mind_the_gap(self, now_ms: int) -> None:
        """After we stood still ourselves, others may have too: let them renew before a lease is called over."""
        late_ms = 0 if self._expected_ms is None else now_ms - self._expected_ms
        self._expected_ms = now_ms
        if late_ms > GAP_MS:
            self._hold_until_ms = now_ms + GAP_GRACE_MS
            _log.warning("the sweep is %d ms late: leases get %d ms more to be renewed", late_ms, GAP_GRACE_MS)
