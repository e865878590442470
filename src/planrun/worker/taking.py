"""How a worker comes to its next job: offers are hints, the grant decides."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from planrun.clock import Clock
from planrun.core.errors import LedgerUnavailable, LedgerUnusable
from planrun.core.kinds import Kind
from planrun.core.messages import Granted, GrantRequest, Lease, Refused
from planrun.core.offers import Offer
from planrun.ledger.contract import Ledger
from planrun.transport.contract import Delivery, WorkerTransport
from planrun.trip import trip
from planrun.worker.gates import Gates, Reservation
from planrun.worker.options import WorkerOptions

log = logging.getLogger(__name__)

TRIED_AT_ONCE = 4
LOOKED_S = 0.05
ENDED_MS = 30_000  # a repeated offer comes within seconds; later the ledger is asked, which knows better
STRANGE = ("unknown", "ahead")  # evidence that the ledger was rolled back, or a message of somebody else
NOT_ME = ("not-ready",)  # others may have it


class Taken(NamedTuple):
    """A granted attempt.

    Attributes:
        asked_ms: When the grant was asked for, boottime.
    """

    granted: Granted
    asked_ms: int


class Asking(NamedTuple):
    """Attributes:
    deliveries: What is asked for, the first one first.
    requests: A grant request for each.
    asked_ms: When one of these was asked for first, boottime: trust in a lease counts from there.
    """

    deliveries: Sequence[Delivery]
    requests: Sequence[GrantRequest]
    asked_ms: int


class Undecided(NamedTuple):
    """A grant that was asked for and not answered: it is asked for again by the same name, and so granted once.

    Attributes:
        asked_ms: When that was done first, boottime: from then on a lease may have run.
    """

    offer: Offer
    nonce: str
    asked_ms: int

    async def done(self, lease: Lease | None = None) -> None: ...
    async def back(self) -> None: ...
    async def strange(self, why: str) -> None: ...


class Taking:
    """Offers and grants of one worker."""

    def __init__(
        self, ledger: Ledger, transport: WorkerTransport, clock: Clock, options: WorkerOptions, incarnation: str
    ) -> None:
        self._ledger = ledger
        self._transport = transport
        self._clock = clock
        self._incarnation = incarnation
        self._lease_ms = options.lease_ms
        self._ended: OrderedDict[tuple[str, int], int] = OrderedDict()  # since when, boottime
        self._undecided: list[Undecided] = []  # without those that are being asked for right now
        self._wanted: set[tuple[str, int]] = set()  # by slots that are being answered right now
        self._ended_max = options.dedup_size

    async def offers(self, free: int) -> list[Delivery]:
        """What waits for such a worker, in the order in which it is to be taken.

        Raises:
            LedgerUnavailable: It cannot be read now.
        """
        oldest_ms = self._clock.boot_ms() - self._lease_ms
        self._undecided = [each for each in self._undecided if each.asked_ms > oldest_ms]
        arrived = await self._fresh(await self._transport.offers(free))
        again = {_key(each) for each in arrived}
        return [*(each for each in self._undecided if _key(each) not in again), *arrived]

    async def glance(self) -> list[Delivery]:
        """What could follow a job that is about to end. Raises as above."""
        return await self._fresh(await self._transport.glance())

    async def _fresh(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Without those that have just ended here."""
        fresh = []
        for delivery in deliveries:
            if self._clock.boot_ms() < self._ended.get(_key(delivery), -ENDED_MS) + ENDED_MS:
                await delivery.done()
            else:
                fresh.append(delivery)
        return fresh

    def unwanted(self, deliveries: Iterable[Delivery]) -> list[Delivery]:
        """Without those that another slot asks for right now: all of them look at the head of the same line."""
        return [delivery for delivery in deliveries if _key(delivery) not in self._wanted]

    def asking(self, deliveries: Sequence[Delivery]) -> Asking:
        """The question for the lease of the first of these that is still to be had. It is to be asked."""
        self._wanted.add(_key(deliveries[0]))
        named = [self._named(delivery.offer) for delivery in deliveries]
        requests = [
            GrantRequest(
                job_id=offer.job_id,
                attempt=offer.attempt,
                incarnation=self._incarnation,
                nonce=nonce,
                lease_ms=self._lease_ms,
                seal=offer.seal,
            )
            for offer, nonce, _ in named
        ]
        return Asking(deliveries, requests, min(each.asked_ms for each in named))

    def _named(self, offer: Offer) -> Undecided:
        """The name by which to ask for it: that of a question without an answer, for one asker at a time."""
        for each in self._undecided:
            if _key(each) == (offer.job_id, offer.attempt):
                self._undecided.remove(each)
                return each._replace(offer=offer)
        return Undecided(offer, self._clock.new_id(), self._clock.boot_ms())

    async def grant(self, asking: Asking) -> Taken | None:
        """Ask, and say of each offer what became of it. An unanswered call is made again, and grants once.

        Raises:
            LedgerUnavailable: There is no telling whether it was granted; if so, the lease runs out.
        """
        trip("grant:asking")
        try:
            answer = await self._ask(asking.requests)
        except BaseException:
            for delivery, request in zip(asking.deliveries, asking.requests, strict=True):
                self._undecided.append(Undecided(delivery.offer, request.nonce, asking.asked_ms))
            await give_back(asking.deliveries)
            raise
        finally:
            self._wanted.discard(_key(asking.deliveries[0]))
        trip("grant:answered")
        first, *others = asking.deliveries
        if isinstance(answer, Refused):  # the first one's reason; of the others nothing is known
            log.debug("job %s attempt %d: %s", first.offer.job_id, first.offer.attempt, answer.why)
            await _refused(first, answer.why)
            await give_back(others)
            return None
        for delivery in asking.deliveries:
            is_granted = delivery.offer.job_id == answer.lease.job_id
            await (delivery.done(answer.lease) if is_granted else delivery.back())
        trip("grant:acknowledged")
        return Taken(answer, asking.asked_ms)

    async def _ask(self, requests: Sequence[GrantRequest]) -> Granted | Refused:
        for _ in range(2):
            with suppress(LedgerUnavailable):
                return await self._ledger.grant_first(requests)
        return await self._ledger.grant_first(requests)

    def remember(self, lease: Lease) -> None:
        """A short memory of what just ended here, so that a repeated offer is dropped before any work."""
        self._ended[lease.job_id, lease.attempt] = self._clock.boot_ms()
        while len(self._ended) > self._ended_max:
            self._ended.popitem(last=False)


def _key(delivery: Delivery) -> tuple[str, int]:
    return delivery.offer.job_id, delivery.offer.attempt


async def _refused(delivery: Delivery, why: str) -> None:
    """What becomes of an offer that was not granted: most have been taken, have ended, or will be offered again."""
    if why in STRANGE:
        await delivery.strange(f"the ledger says {why}")
    elif why in NOT_ME:
        await delivery.back()
    else:
        await delivery.done()


async def give_back(deliveries: Iterable[Delivery]) -> None:
    for delivery in deliveries:
        await delivery.back()


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
        self._offers: asyncio.Task[list[Delivery]] | None = None
        self._attempted: asyncio.Task[bool] | None = None

    def look(self) -> None:
        """The job has said done; what would be next is read while its process is put in order."""
        if self._offers is None and self._may_follow():
            self._offers = asyncio.create_task(self._taking.glance())

    async def looked(self) -> None:
        """Wait for what `look` has asked for, but hold no settle up."""
        if self._offers is not None and not self._offers.done():
            await asyncio.wait([self._offers], timeout=LOOKED_S)

    def take(self) -> None:
        """The job is about to be settled, and nothing of it lies in the room any more."""
        if self._offers is None or not self._offers.done():
            return
        if self._may_follow() and self._gates.still_admit(self._kind, self._room):
            asking = self._asking(self._offers)
            # Made before the settle is asked for, and in the same breath: so both are written in the same commit.
            self._attempted = asyncio.create_task(self._take(asking)) if asking is not None else None

    async def has_come(self) -> bool:
        """Has something followed? Then folder and room are its own."""
        if self._attempted is not None:
            return await self._attempted
        if self._offers is not None:
            self._offers.cancel()
            await asyncio.gather(self._offers, return_exceptions=True)
        return False

    def _asking(self, offers: asyncio.Task[list[Delivery]]) -> Asking | None:
        kind = (self._kind.kind, self._kind.version)
        try:
            alike = itertools.takewhile(lambda one: (one.offer.kind, one.offer.version) == kind, offers.result())
        except LedgerUnavailable:
            return None
        first = self._taking.unwanted(alike)[:TRIED_AT_ONCE]
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
