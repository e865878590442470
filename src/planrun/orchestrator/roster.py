"""The machines that take work now, by lane. Read anew in small pieces: only who was seen since the last look."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from planrun.clock import Instant
from planrun.core.flows import lane_of
from planrun.core.messages import WorkerRow
from planrun.ledger.fleet import FleetLedger

LIVE_MS = 300_000  # offering a little to those who have just died costs nothing
LOOK_EVERY_MS = 250
OVERLAP_MS = 250  # a commit shows a moment after the time that it carries
ALL_EVERY_MS = 30_000


@dataclass
class Lane:
    """Machines that can run the same.

    Attributes:
        like: One of them.
    """

    name: str
    like: WorkerRow
    slots: int = 0
    free: int = 0
    kinds: frozenset[tuple[str, str]] = field(default_factory=frozenset)


class Roster:
    """Follows the registry of the ledger."""

    def __init__(self, ledger: FleetLedger) -> None:
        self._ledger = ledger
        self._rows: dict[str, tuple[WorkerRow, str]] = {}  # with their lane
        self._looked: Instant | None = None
        self._all_ms = 0
        self._lanes: dict[str, Lane] | None = None  # None: to be added up anew
        self._taken: Mapping[str, int] = {}  # as it was when they were added up

    async def look(self, now: Instant, changed: Iterable[str]) -> None:
        """Read who was seen, or changed, since the last look."""
        if self._looked is None or now.boot_ms >= self._all_ms + ALL_EVERY_MS:
            self._rows, self._lanes = {}, None
            self._put(await self._ledger.workers(now.wall_ms - LIVE_MS))
            self._all_ms, self._looked = now.boot_ms, now
            return
        if known := [name for name in changed if name in self._rows]:
            self._put(await self._ledger.workers_among(known))
        if now.boot_ms >= self._looked.boot_ms + LOOK_EVERY_MS:
            self._put(await self._ledger.workers(self._looked.wall_ms - OVERLAP_MS))
            self._looked = now

    def lanes(self, taken: Mapping[str, int]) -> list[Lane]:
        """Those that have a machine that takes work, the one with most free slots first.

        Args:
            taken: Leases by incarnation; another mapping once they are others.
        """
        if self._lanes is None or taken is not self._taken:
            self._lanes, self._taken = self._added_up(taken), taken
        return sorted(self._lanes.values(), key=lambda lane: (-lane.free, lane.name))

    def _added_up(self, taken: Mapping[str, int]) -> dict[str, Lane]:
        lanes: dict[str, Lane] = {}
        for row, name in self._rows.values():
            if row.state != "ready":
                continue
            if name not in lanes:
                kinds = frozenset((each.kind, each.version) for each in row.handlers if not each.missing)
                lanes[name] = Lane(name, row, kinds=kinds)
            lanes[name].slots += row.slots
            lanes[name].free += max(0, row.slots - taken.get(row.incarnation, 0))
        return lanes

    def _put(self, rows: Iterable[WorkerRow]) -> None:
        for row in rows:
            known = self._rows.get(row.incarnation)
            if known is None or (known[0].state, known[0].slots) != (row.state, row.slots):
                self._lanes = None  # not for each sign of life, of which a large fleet has hundreds a second
            self._rows[row.incarnation] = row, known[1] if known is not None else lane_of(row)
