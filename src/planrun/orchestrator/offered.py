"""Which offers are out. Only remembered: whoever forgets them offers again, and the ledger grants once."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from planrun.core.offers import Offer

LATELY_MS = 1_000


class Out(NamedTuple):
    """One offer in one lane, since when (boottime)."""

    offer: Offer
    at_ms: int


class Offered:
    """By lane and by job."""

    def __init__(self) -> None:
        self._lanes: dict[str, dict[str, Out]] = {}
        self._jobs: dict[str, set[str]] = {}
        self._taken: dict[str, deque[int]] = {}
        self._namespaces: Counter[str] = Counter()

    def add(self, lane: str, offer: Offer, now_ms: int) -> None:
        if offer.job_id not in self._jobs:
            self._namespaces[offer.namespace] += 1
        self._lanes.setdefault(lane, {})[offer.job_id] = Out(offer, now_ms)
        self._jobs.setdefault(offer.job_id, set()).add(lane)

    def changed(self, names: Iterable[str], now_ms: int) -> None:
        """Something happened to these jobs: mostly they were taken. What still waits is offered anew."""
        for job_id in names:
            for lane in tuple(self._jobs.get(job_id, ())):
                self._taken.setdefault(lane, deque()).append(now_ms)
                self._forget(lane, job_id)

    def clear(self) -> None:
        """Everything may be lost."""
        self._lanes.clear()
        self._jobs.clear()
        self._namespaces.clear()

    def drop(self, lane: str, job_ids: Iterable[str]) -> None:
        """These are taken for lost."""
        for job_id in job_ids:
            self._forget(lane, job_id)

    def in_lane(self, lane: str) -> Mapping[str, Out]:
        """What is out there, by job."""
        return self._lanes.get(lane, {})

    def last_ms(self, job_id: str) -> int | None:
        """When a job was last offered, in any lane."""
        return max((self._lanes[lane][job_id].at_ms for lane in self._jobs.get(job_id, ())), default=None)

    def count(self, namespace: str) -> int:
        """How many jobs of a namespace are on offer, in any lane."""
        return self._namespaces[namespace]

    def taken_lately(self, lane: str, now_ms: int) -> int:
        """How many were taken from a lane within the last second."""
        times = self._taken.get(lane, deque())
        while times and times[0] <= now_ms - LATELY_MS:
            times.popleft()
        return len(times)

    def _forget(self, lane: str, job_id: str) -> None:
        offer = self._lanes[lane].pop(job_id).offer
        self._jobs[job_id].discard(lane)
        if not self._jobs[job_id]:
            del self._jobs[job_id]
            self._namespaces[offer.namespace] -= 1
