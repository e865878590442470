"""Ending leases that ran out: on one box at once; in a fleet with a brake, and after everybody got a full lease.

In a fleet the orchestrator may itself be what was away: so when it starts, all leases get their full length again,
and where very many seem to be silent at once, one worker is given up at a time.
"""

from __future__ import annotations

import logging
from typing import Protocol

from planrun.core.brake import ONE_WORKER_EVERY_MS, is_braked
from planrun.ledger.contract import Ledger
from planrun.ledger.fleet import FleetLedger

EXPIRY_AHEAD_MS = 700

_log = logging.getLogger("planrun.sweeper")


class Expiry(Protocol):
    """What a sweep does about leases."""

    async def tick(self, now_ms: int, lease_ms: int | None) -> None:
        """Look at them.

        Args:
            now_ms: Boottime, read before anybody waited for the ledger.
            lease_ms: When the first lease runs out, boottime; None: there is none.
        """
        ...


class PlainExpiry:
    """On one box: a renewal that was answered was processed, so whatever ran out may end."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def tick(self, now_ms: int, lease_ms: int | None) -> None:
        """Asked a little ahead, the ledger finds out in time whether it can be written at all."""
        if lease_ms is not None and lease_ms - EXPIRY_AHEAD_MS <= now_ms:
            await self._ledger.expire(stamp_ms=now_ms)


class FleetExpiry:
    """In a fleet whose workers renew by asking the ledger itself."""

    def __init__(self, ledger: FleetLedger) -> None:
        self._ledger = ledger
        self._is_armed = False
        self._is_braked = False
        self._next_ms = 0  # then another worker may be given up

    async def tick(self, now_ms: int, lease_ms: int | None) -> None:
        if not self._is_armed:
            await self._ledger.rearm(beat_epoch=await self._ledger.begin_beats())
            self._is_armed = True
        elif lease_ms is not None and lease_ms <= now_ms:
            await self.end(stamp_ms=now_ms, now_ms=now_ms)

    async def end(self, *, stamp_ms: int, now_ms: int) -> None:
        """End what ran out by then; where that is very much, one worker at a time."""
        silent = await self._ledger.silent(stamp_ms=stamp_ms)
        running = sum((await self._ledger.running()).values())
        was_braked, self._is_braked = self._is_braked, is_braked(silent, running=running, was_braked=self._is_braked)
        if not self._is_braked:
            await self._expire(stamp_ms, None)
            return
        if not was_braked:
            _log.error(
                "%d of %d leases on %d workers ran out at once: more likely the way to them is broken than they are. "
                "One worker is given up every %d s; look at the broker and the network",
                sum(silent.values()),
                running,
                len(silent),
                ONE_WORKER_EVERY_MS // 1000,
            )
        if now_ms >= self._next_ms and await self._expire(stamp_ms, next(iter(silent))):
            self._next_ms = now_ms + ONE_WORKER_EVERY_MS

    async def _expire(self, stamp_ms: int, incarnation: str | None) -> int:
        """Slice by slice. Returns how many leases ended."""
        ended = 0
        while some := await self._ledger.expire(stamp_ms=stamp_ms, incarnation=incarnation):
            ended += some
        return ended
