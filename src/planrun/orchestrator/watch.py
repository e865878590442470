"""Being told of a death instead of looking for it: milliseconds between a worker's end and its burial.

The system says that the process has ended; that is a hint. The proof is the lock, and the job trees
that also hold it may need a moment to die, so it is tried again and again for a short while. Whatever
this misses, the next sweep finds.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence

from planrun.clock import Clock
from planrun.core.errors import LedgerUnavailable, LedgerUnusable
from planrun.core.messages import WorkerRow
from planrun.lockfile import watch_death

PROBE_EVERY_S = 0.015
PROBE_FOR_MS = 5_000


class Watch:
    """Follows the processes of other workers that hold something. Belongs to one event loop."""

    def __init__(self, bury_if_dead: Callable[[WorkerRow], Awaitable[bool]], clock: Clock) -> None:
        self._bury_if_dead = bury_if_dead
        self._clock = clock
        self._descriptors: dict[str, int] = {}
        self._probes: dict[str, asyncio.Task[None]] = {}
        self._given_up: set[str] = set()  # left to the sweeps: their pid tells nothing

    def follow(self, holders: Sequence[WorkerRow]) -> None:
        """Follow exactly these from now on."""
        wanted = {holder.incarnation: holder for holder in holders if holder.pid}
        for gone in self._descriptors.keys() - wanted.keys():
            self._forget(gone)
        self._given_up &= wanted.keys()
        for new in wanted.keys() - self._descriptors.keys() - self._probes.keys() - self._given_up:
            self._start(wanted[new])

    async def close(self) -> None:
        """Follow nobody any more."""
        for incarnation in list(self._descriptors):
            self._forget(incarnation)
        probes = list(self._probes.values())
        for probe in probes:
            probe.cancel()
        await asyncio.gather(*probes, return_exceptions=True)

    def _start(self, holder: WorkerRow) -> None:
        fd = watch_death(holder.pid)
        if fd is None:  # it may have died since the last look at its lock
            self._ended(holder)
            return
        self._descriptors[holder.incarnation] = fd
        asyncio.get_running_loop().add_reader(fd, self._ended, holder)

    def _ended(self, holder: WorkerRow) -> None:
        self._forget(holder.incarnation)
        probe = asyncio.get_running_loop().create_task(self._probe(holder))
        self._probes[holder.incarnation] = probe
        probe.add_done_callback(lambda _: self._probes.pop(holder.incarnation))

    async def _probe(self, holder: WorkerRow) -> None:
        until_ms = self._clock.boot_ms() + PROBE_FOR_MS
        while self._clock.boot_ms() < until_ms:
            try:
                if await self._bury_if_dead(holder):
                    return
            except (LedgerUnavailable, LedgerUnusable):
                pass  # said by the sweeper, which meets the same ledger
            await self._clock.sleep(PROBE_EVERY_S)
        self._given_up.add(holder.incarnation)

    def _forget(self, incarnation: str) -> None:
        fd = self._descriptors.pop(incarnation, None)
        if fd is not None:
            asyncio.get_running_loop().remove_reader(fd)
            os.close(fd)
