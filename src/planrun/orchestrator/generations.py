"""Is this the ledger, or an older copy of it? Asked of the store at start, and every minute.

    ledger/<uuid>/gen/<n>               a generation, by whom it was taken: created once
    ledger/<uuid>/high/<generation>-<n> a high-water mark: its name says it all; older ones are removed

The mark is made before an answer is said, every minute, and at a clean stop. So a copy that lacks an answer which
somebody got is always behind the mark.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from planrun.clock import Clock
from planrun.core.errors import LedgerUnavailable, LedgerUnusable, StorageError
from planrun.core.generations import (
    RECOVER,
    History,
    Known,
    Mark,
    Taken,
    folder_of,
    generation_in,
    generation_key,
    mark_in,
    mark_key,
    taken_of,
    why_not,
)
from planrun.ledger.chronicle import Chronicle
from planrun.storage.contract import Store
from planrun.trip import trip

MARK_EVERY_MS = 60_000
LOOK_EVERY_MS = 5_000  # because of what somebody says

_log = logging.getLogger("planrun.generations")


@dataclass(frozen=True, slots=True)
class _Look:
    """A look that has ended.

    Attributes:
        number: How many had begun.
        failed: The store did not say.
    """

    number: int
    failed: StorageError | None = None


class Generations:
    """The generations of one ledger. Belongs to one event loop."""

    def __init__(self, chronicle: Chronicle, store: Store, clock: Clock) -> None:
        self._chronicle = chronicle
        self._store = store
        self._clock = clock
        self._number = 0
        self._newest = 0
        self._replaced = asyncio.Event()
        self._marked: Mark | None = None
        self._accused = False
        self._marking = asyncio.Lock()
        self._looking = asyncio.Lock()
        self._looks = 0
        self._last = _Look(0)
        self._again_ms = 0

    async def enter(self, *, recover: bool) -> History:
        """Make sure that this ledger is the right one, and that its generation is ours. Asked before anything else.

        Args:
            recover: The operator says that it is an older copy: begin a new generation. Where nothing was said since,
                and no minute has passed, only he knows; without one its tokens would be given out a second time.

        Raises:
            LedgerUnusable: It must not be run as it is; says what was found and what to do.
            StorageError: The store does not say.
        """
        history = await self._chronicle.history()
        known = await asyncio.to_thread(self._known, history.uuid)
        problem = why_not(history, known)
        if problem and not recover:
            raise LedgerUnusable(
                f"this ledger must not be run as it is: {problem}. Run the newest copy there is, with no other "
                f"orchestrator; if this is the newest that you have, {RECOVER}: see docs/howto/restore.md"
            )
        if recover:
            _log.warning("recovering: %s", problem or "as told")
        if recover or not history.owner or not history.sealed:
            await self._take(history, known, recovering=recover)
            history = await self._chronicle.history()
        self._number = history.generation
        await self.reach(Mark(generation=history.generation, n=history.n))
        return history

    @property
    def number(self) -> int:
        """The generation of this process; 0 before it has entered."""
        return self._number

    @property
    def replaced(self) -> str:
        """Why this process must end, in words; empty: it need not."""
        if self._newest <= self._number:
            return ""
        return (
            f"generation {self._newest} of this ledger has taken over from generation {self._number}: a copy of it was "
            "recovered elsewhere; do not start this one again"
        )

    async def hear(self, number: int) -> None:
        """Somebody has met that generation. If it is higher than ours, the store says whether we are replaced.

        Anybody can say so: however many do, and however often, the store is not asked more than every few seconds.

        Raises:
            LedgerUnavailable: We are, or the store does not say.
        """
        if number <= self._number:
            return
        try:
            if not self.replaced:
                await self._look_for_all()
        except StorageError as error:
            raise LedgerUnavailable(
                f"generation {number} of this ledger was met, this one is {self._number}, and the store does not say "
                f"which is right: {error}"
            ) from None
        if self.replaced:
            raise LedgerUnavailable(self.replaced)

    async def wait_replaced(self) -> None:
        """Until another process has recovered a copy of this ledger."""
        await self._replaced.wait()

    async def reach(self, mark: Mark) -> None:
        """Let the store know that the ledger has counted so far. Durable on return."""
        async with self._marking:
            before = self._marked
            if before is not None and mark <= before:
                return
            uuid = (await self._chronicle.history()).uuid
            await asyncio.to_thread(self._store.put_if_absent, mark_key(uuid, mark), b"{}")
            trip("mark:written")
            self._marked = mark
            if before is not None:
                await asyncio.to_thread(self._store.delete, mark_key(uuid, before))

    async def tick(self, now_ms: int) -> int:
        """Renew the mark, and look whether somebody else has taken over.

        Returns:
            When to do it again, boottime milliseconds.
        """
        async with self._looking:
            history = await self._look()
        if self.replaced:
            return now_ms + MARK_EVERY_MS
        if history.rolled_back and not self._accused:
            self._accused = True
            _log.error("%s; nothing more is started: stop the orchestrator, and %s", history.rolled_back, RECOVER)
        await self.reach(Mark(generation=history.generation, n=history.n))
        return now_ms + MARK_EVERY_MS

    async def close(self) -> None:
        """Renew the mark a last time; a store that is away now has an older one, which is right as well."""
        history = await self._chronicle.history()
        with suppress(StorageError):
            await self.reach(Mark(generation=history.generation, n=history.n))

    async def _look_for_all(self) -> None:
        """A look that begins after this call. All who have come before it began share it."""
        came = self._looks
        async with self._looking:
            if self._last.number <= came:
                wait_ms = self._again_ms - self._clock.boot_ms()
                if wait_ms > 0:
                    await self._clock.sleep(wait_ms / 1000)
                self._again_ms = self._clock.boot_ms() + LOOK_EVERY_MS
                await self._look()
            elif self._last.failed is not None:
                raise self._last.failed

    async def _look(self) -> History:
        """Look whether somebody else has taken over. One at a time."""
        self._looks += 1
        number = self._looks
        try:
            history = await self._chronicle.history()
            if not self.replaced:
                self._newest = (await asyncio.to_thread(self._known, history.uuid)).newest
        except StorageError as error:
            self._last = _Look(number, failed=error)
            raise
        self._last = _Look(number)
        if self.replaced:
            self._replaced.set()
        return history

    async def _take(self, history: History, known: Known, *, recovering: bool) -> None:
        """Take the next generation that nobody has. What a crash leaves of it is one that nobody will ever use."""
        owner = self._clock.new_id()
        taken = msgspec.json.encode(Taken(owner=owner, at_ms=self._clock.now().wall_ms))
        number = max(known.newest + 1, history.generation + int(recovering))
        while True:
            key = generation_key(history.uuid, number)
            there = await asyncio.to_thread(self._store.put_if_absent, key, taken)
            if there == taken:
                break
            number += 1
        trip("generation:taken")
        seal_key = self._clock.new_id()
        await self._chronicle.take_generation(number, owner, seal_key=seal_key, recovering=recovering)
        trip("generation:entered")

    def _known(self, uuid: str) -> Known:
        generations: dict[int, Taken] = {}
        marks: list[Mark] = []
        for key in self._store.keys(folder_of(uuid)):
            number, mark = generation_in(key), mark_in(key)
            if number is not None:
                generations[number] = taken_of(self._store.read(key) or b"") or Taken(owner="", at_ms=0)
            if mark is not None:
                marks.append(mark)
        return Known(generations=generations, high=max(marks, default=None))
