"""Offers: which job is shown to which lane, and when again.

The ledger is the queue; what is out is a hint. So nothing here is written down: after a start, or a break of the way to
the broker, everything is offered afresh, and what is offered twice is granted once.

* A lane's offers are topped up to a window (`core.dispatch`); what the ledger says of a job ends its offers.
* An offer that nobody has taken is taken for lost after ten minutes; where its lane lies empty after one, or after
  seconds while slots there are free.
* One that was not taken within seconds is shown to other lanes, too, as far as they have slots that nobody asks for.
* A lane that takes none holds up no other: from then on it comes last, and where others take theirs it is left alone
  for a minute. Where nobody takes any, the broker is away, and one lane is enough to see it.
* A kind with a rate gets offers no faster. A job that is paused or not due is not offered: the ledger leaves it out.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence

from planrun.clock import Clock
from planrun.core.coverage import OpenJobs
from planrun.core.dispatch import ELSEWHERE_AFTER_MS, fair, is_overdue, window
from planrun.core.errors import TransportUnavailable
from planrun.core.offers import Offer, OfferQuery, oldest_at
from planrun.core.rates import Bucket
from planrun.ledger.fleet import FleetLedger
from planrun.orchestrator.changes import Changes
from planrun.orchestrator.counted import Counted
from planrun.orchestrator.offered import Offered
from planrun.orchestrator.roster import Lane, Roster
from planrun.transport.contract import FleetTransport

LOOK_EVERY_MS = 1_000
RECALL_EVERY_MS = 2_000
AT_ONCE_MAX = 500  # offers to one lane in one look
SICK_LANE_RESTS_MS = 60_000


class Dispatcher:
    """One look at what waits and who is free, and the offers that follow from it."""

    def __init__(self, ledger: FleetLedger, transport: FleetTransport, clock: Clock) -> None:
        self._ledger = ledger
        self._transport = transport
        self._clock = clock
        self._changes = Changes(ledger)
        self._roster = Roster(ledger)
        self._offered = Offered()
        self._breaks: int | None = None
        self._taken = Counted[Mapping[str, int]](ledger.running, clock, {})  # leases by incarnation
        self._open = Counted[Sequence[OpenJobs]](ledger.open_jobs, clock, ())
        self._buckets: dict[str, Bucket] = {}  # by kind
        self._since_oldest: Counter[tuple[str, str]] = Counter()  # offers by lane and namespace
        self._turns: dict[tuple[str, str], int] = {}
        self._turn = 0
        self._recall_ms: dict[str, int] = {}  # when lanes are looked through for lost offers
        self._failed_ms: dict[str, int] = {}  # when lanes took nothing, or until when they are left alone for that
        self._said: bool | None = None

    async def tick(self, now_ms: int) -> int:
        """Look once, and top up every lane.

        Returns:
            When to look again, boottime milliseconds; earlier after any change of the ledger.

        Raises:
            TransportUnavailable: A lane took nothing. What could not be sent is not remembered as offered.
        """
        await self._look(now_ms)
        taken, jobs = await self._taken.look(now_ms), await self._open.look(now_ms)
        some_took = False
        failures: dict[str, TransportUnavailable] = {}
        for lane in self._in_order(self._roster.lanes(taken), now_ms):
            try:
                await self._recall(lane, now_ms)
                if await self._top_up(lane, jobs, now_ms):
                    some_took = True
                    self._failed_ms.pop(lane.name, None)
            except TransportUnavailable as error:
                failures[lane.name] = error
                if not some_took:  # a broker that is away is not asked once for each lane
                    break
        self._failed_ms |= dict.fromkeys(failures, now_ms + (SICK_LANE_RESTS_MS if some_took else 0))
        await self._say(goes_on=some_took or not failures)
        for failure in failures.values():
            raise failure
        refills = [bucket.next_ms() for bucket in self._buckets.values() if not bucket.whole]
        return min([now_ms + LOOK_EVERY_MS, *(at_ms for at_ms in refills if at_ms is not None)])

    async def _say(self, *, goes_on: bool) -> None:
        if goes_on is not self._said:
            await self._ledger.say_offering(goes_on=goes_on)
            self._said = goes_on

    def _in_order(self, lanes: Sequence[Lane], now_ms: int) -> list[Lane]:
        """Without those that are left alone; who took nothing the last time comes last."""
        awake = [lane for lane in lanes if self._failed_ms.get(lane.name, 0) <= now_ms]
        return sorted(awake, key=lambda lane: self._failed_ms.get(lane.name, 0))

    async def _look(self, now_ms: int) -> None:
        breaks = self._transport.breaks
        changed = self._changes.take()
        if breaks != self._breaks or changed is None:
            self._offered.clear()
            self._breaks = breaks
        self._offered.changed(changed or (), now_ms)
        await self._roster.look(self._clock.now(), changed or ())
        rates = await self._ledger.rates()
        known = {kind: bucket for kind, bucket in self._buckets.items() if rates.get(kind) == bucket.per_s}
        self._buckets = {
            kind: known[kind].at(now_ms) if kind in known else Bucket.full(per_s, now_ms)
            for kind, per_s in rates.items()
        }

    async def _recall(self, lane: Lane, now_ms: int) -> None:
        """Now and then: forget what seems to be lost."""
        if now_ms < self._recall_ms.get(lane.name, 0):
            return
        self._recall_ms[lane.name] = now_ms + RECALL_EVERY_MS
        out, is_idle = self._offered.in_lane(lane.name), lane.free > 0

        def overdue(*, is_empty: bool) -> list[str]:
            ages = {job_id: now_ms - each.at_ms for job_id, each in out.items()}
            return [name for name, age_ms in ages.items() if is_overdue(age_ms, is_empty=is_empty, is_idle=is_idle)]

        if not overdue(is_empty=True):
            return
        lost = overdue(is_empty=await self._transport.waiting(lane.name) == 0)
        self._offered.drop(lane.name, lost)

    async def _top_up(self, lane: Lane, jobs: Sequence[OpenJobs], now_ms: int) -> bool:
        """Returns: has the lane taken anything? Not where there was nothing to offer."""
        out = self._offered.in_lane(lane.name)
        lately = self._offered.taken_lately(lane.name, now_ms)
        want = min(window(slots=lane.slots, free=lane.free, starts_per_s=lately) - len(out), AT_ONCE_MAX)
        if want <= 0:
            return False
        holds = Counter(each.offer.namespace for each in out.values())
        for line in jobs:
            holds[line.namespace] += line.running if (line.kind, line.version) in lane.kinds else 0
        lines = {name: await self._line(lane, name, want, now_ms) for name in lane.like.namespaces}
        turns = {name: turn for (where, name), turn in self._turns.items() if where == lane.name}
        chosen = self._within_rates(fair(lines, holds=holds, turns=turns, limit=want))
        sent = await asyncio.gather(
            *(self._transport.send_offer(lane.name, offer) for offer in chosen), return_exceptions=True
        )
        for offer, failure in zip(chosen, sent, strict=True):
            if failure is None:
                self._remember(lane, offer, now_ms)
        for failure in sent:
            if failure is not None:
                raise failure
        return bool(sent)

    async def _line(self, lane: Lane, namespace: str, want: int, now_ms: int) -> list[Offer]:
        """What waits for this lane in one namespace and is not on offer; elsewhere: not lately."""
        like = lane.like
        dry = {kind for kind, bucket in self._buckets.items() if not bucket.whole}
        query = OfferQuery(
            namespaces=(namespace,),
            handlers=tuple(each for each in like.handlers if not each.missing and each.kind not in dry),
            capabilities=like.capabilities,
            limit=want + self._offered.count(namespace),
            oldest_at=oldest_at(self._since_oldest[lane.name, namespace], want),
        )
        here = self._offered.in_lane(lane.name)
        has_room = len(here) < lane.free

        def is_new(offer: Offer) -> bool:
            if offer.job_id in here:
                return False
            last_ms = self._offered.last_ms(offer.job_id)
            return last_ms is None or (has_room and now_ms - last_ms >= ELSEWHERE_AFTER_MS)

        return [offer for offer in await self._ledger.offers(query) if is_new(offer)]

    def _within_rates(self, offers: Sequence[Offer]) -> list[Offer]:
        kept = []
        for offer in offers:
            bucket = self._buckets.get(offer.kind)
            if bucket is None or bucket.whole:
                kept.append(offer)
            if bucket is not None and bucket.whole:
                self._buckets[offer.kind] = bucket.take(1)
        return kept

    def _remember(self, lane: Lane, offer: Offer, now_ms: int) -> None:
        self._offered.add(lane.name, offer, now_ms)
        place = lane.name, offer.namespace
        self._since_oldest[place] = 0 if offer.by_age else self._since_oldest[place] + 1
        self._turn += 1
        self._turns[place] = self._turn
