"""How a worker comes to its next job: offers are hints, the grant decides."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from planrun.clock import Clock
from planrun.core.errors import LedgerUnavailable, LedgerUnusable
from planrun.core.kinds import Kind
from planrun.core.messages import Granted, GrantRequest, Lease, Refused, WorkerRow
from planrun.core.offers import Offer, OfferQuery, oldest_at, since_oldest
from planrun.ledger.contract import Ledger
from planrun.worker.gates import Gates, Reservation
from planrun.worker.options import WorkerOptions

log = logging.getLogger(__name__)

SPARE_OFFERS = 8  # others look at the same line; some of these will be gone
TRIED_AT_ONCE = 4
LOOKED_S = 0.05


class Taken(NamedTuple):
    """A granted attempt.

    Attributes:
        asked_ms: When the grant was asked for, boottime.
    """

    granted: Granted
    asked_ms: int


class Asking(NamedTuple):
    """Attributes:
    offers: What is asked for, the first one first.
    requests: A grant request for each.
    """

    offers: Sequence[Offer]
    requests: Sequence[GrantRequest]


class Taking:
    """Offers and grants of one worker."""

    def __init__(self, ledger: Ledger, clock: Clock, options: WorkerOptions, row: WorkerRow, query: OfferQuery) -> None:
        self._ledger = ledger
        self._clock = clock
        self._incarnation = row.incarnation
        self._lease_ms = round(options.lease_s * 1000)
        self._query = query
        self._since_oldest: int | None = None  # starts since the last one by age
        self._ended: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._ended_max = options.dedup_size

    async def offers(self, count: int) -> list[Offer]:
        """What waits for such a worker, in the order in which it is to be taken.

        Raises:
            LedgerUnavailable: It cannot be read now.
        """
        query = msgspec.structs.replace(
            self._query, limit=count + SPARE_OFFERS, oldest_at=oldest_at(self._since_oldest or 0, count)
        )
        offers = await self._ledger.offers(query)
        return [offer for offer in offers if (offer.job_id, offer.attempt) not in self._ended]

    def asking(self, offers: Sequence[Offer]) -> Asking:
        """The question for the lease of the first of these that is still to be had."""
        requests = [
            GrantRequest(
                job_id=offer.job_id,
                attempt=offer.attempt,
                incarnation=self._incarnation,
                nonce=self._clock.new_id(),
                lease_ms=self._lease_ms,
            )
            for offer in offers
        ]
        return Asking(offers, requests)

    async def grant(self, asking: Asking) -> Taken | None:
        """Ask. An unanswered call is made again, and grants once.

        Raises:
            LedgerUnavailable: There is no telling whether it was granted; if so, the lease runs out.
        """
        asked_ms = self._clock.boot_ms()
        for tries_left in (2, 1, 0):
            try:
                answer = await self._ledger.grant_first(asking.requests)
                break
            except LedgerUnavailable:
                if not tries_left:
                    raise
        offers = asking.offers
        if isinstance(answer, Refused):
            log.debug("job %s attempt %d: %s", offers[0].job_id, offers[0].attempt, answer.why)
            return None
        [offer] = [offer for offer in offers if offer.job_id == answer.lease.job_id]
        self._since_oldest = since_oldest(self._since_oldest, offer, answer.lease)
        return Taken(answer, asked_ms)

    def remember(self, lease: Lease) -> None:
        """A short memory of what just ended here, so that a repeated offer is dropped before any work."""
        self._ended[lease.job_id, lease.attempt] = None
        while len(self._ended) > self._ended_max:
            self._ended.popitem(last=False)


class Successor:
    """The job after this one, granted in the very commit that settles this one.

    A slot that is busy all the time so pays one commit per job, not two. Only a job of the same kind can
    follow, and only while it is the first in line: the room of this one is what it gets.
    """

    def __init__(
        self,
        taking: Taking,
        gates: Gates,
        *,
        kind: Kind,
        room: Reservation,
        may_follow: Callable[[], bool],
        begin: Callable[[Taken], None],
    ) -> None:
        """
        Args:
            may_follow: Does the worker take jobs at all?
            begin: Called with what follows, at once: from then on its lease is to be renewed.
        """
        self._taking = taking
        self._gates = gates
        self._kind = kind
        self._room = room
        self._may_follow = may_follow
        self._begin = begin
        self._offers: asyncio.Task[list[Offer]] | None = None
        self._attempted: asyncio.Task[bool] | None = None

    def look(self) -> None:
        """The job has said done; what would be next is read while its process is put in order."""
        if self._offers is None and self._may_follow():
            self._offers = asyncio.create_task(self._taking.offers(1))

    async def looked(self) -> None:
        """Wait for what `look` has asked for, but hold no settle up."""
        if self._offers is not None:
            await asyncio.wait([self._offers], timeout=LOOKED_S)

    def take(self) -> None:
        """All that is left of the job is to settle it, and nothing of it lies in the room any more."""
        if self._offers is None or not self._offers.done():
            return
        if self._may_follow() and self._gates.still_admit(self._kind, self._room):
            asking = self._asking(self._offers)
            # Made before the settle is handed over: whatever takes longer would come too late for its commit.
            self._attempted = asyncio.create_task(self._take(asking)) if asking is not None else None

    async def has_come(self) -> bool:
        """Has something followed? Then folder and room are its own."""
        if self._attempted is not None:
            return await self._attempted
        if self._offers is not None:
            self._offers.cancel()
            await asyncio.gather(self._offers, return_exceptions=True)
        return False

    def _asking(self, offers: asyncio.Task[list[Offer]]) -> Asking | None:
        kind = (self._kind.kind, self._kind.version)
        try:
            alike = itertools.takewhile(lambda offer: (offer.kind, offer.version) == kind, offers.result())
        except LedgerUnavailable:
            return None
        first = list(itertools.islice(alike, TRIED_AT_ONCE))
        return self._taking.asking(first) if first else None

    async def _take(self, asking: Asking) -> bool:
        try:
            taken = await self._taking.grant(asking)
        except (LedgerUnavailable, LedgerUnusable) as error:
            log.debug("nothing follows: %s", error)
            return False
        if taken is not None:
            self._begin(taken)
        return taken is not None
