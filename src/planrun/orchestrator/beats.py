"""The heartbeats of a fleet with a broker, and what may be concluded from their absence.

A worker trusts itself once the broker has confirmed its heartbeat; the ledger may not have seen it yet. So a lease
that ran out says nothing by itself. Four rules make it say something:

* a heartbeat counts from the moment in which it is processed: never from a clock of somebody else;
* before leases end, a marker goes into the heartbeats' own way. Whoever meets it has processed all that was confirmed
  before it was sent: what ran out before the marker was made, and still has, may end;
* a marker counts only if that way was whole from its sending to its arrival. After every interruption, and at the
  start, heartbeats get a new place (an epoch), and *then* all leases their full length again: nothing of what was
  lost could have given its sender more;
* very many at once end slowly (`expiry`).

Source of the rules: docs/concepts/leases-and-fencing.md.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby

from planrun.clock import Clock
from planrun.core.errors import TransportUnavailable
from planrun.core.flows import Marker, Notice
from planrun.core.messages import RenewRequest, Standing
from planrun.ledger.fleet import FleetLedger
from planrun.orchestrator.expiry import FleetExpiry
from planrun.transport.contract import FleetTransport

TAKE_IN_EVERY_MS = 250  # one transaction for all that came meanwhile
WAIT_S = 1.0
MARK_AGAIN_MS = 10_000  # a marker that was refused or dropped
SOJOURN_MAX_MS = 600_000  # heartbeats that wait longer than this may be dropped by the broker, so a marker says nothing

_log = logging.getLogger("planrun.beats")


class Beats:
    """The one consumer of heartbeats, and the `Expiry` of its fleet."""

    def __init__(self, ledger: FleetLedger, transport: FleetTransport, clock: Clock) -> None:
        self._ledger = ledger
        self._transport = transport
        self._clock = clock
        self._expiry = FleetExpiry(ledger)
        self._breaks: int | None = None  # of the way on which this epoch began; None: there is no epoch yet
        self._marked: dict[str, int] = {}  # when each marker of this epoch was made that has not come back
        self._taken: list[RenewRequest | Marker] = []  # and not all in the ledger yet

    async def take_in(self, now_ms: int) -> int:
        """Process what has arrived; returns when to do it again, boottime milliseconds."""
        if not self._is_whole() or self._is_hopeless(now_ms):
            await self._begin_epoch()
        if not self._taken:  # else the ledger could not be asked: what was taken is not forgotten
            self._taken = list(await self._transport.beats(timeout_s=WAIT_S))
        while self._taken:
            await self._process_first()
        return now_ms + TAKE_IN_EVERY_MS

    async def tick(self, now_ms: int, lease_ms: int | None) -> None:
        """A sweep has looked: if a lease ran out, send a marker. Nothing ends here."""
        if lease_ms is None or lease_ms > now_ms or not self._is_whole():
            return
        if any(now_ms < made_ms + MARK_AGAIN_MS for made_ms in self._marked.values()):
            return
        marker = Marker(stamp_ms=now_ms, nonce=self._clock.new_id())
        self._marked[marker.nonce] = now_ms
        await self._transport.mark(marker)

    def _is_whole(self) -> bool:
        return self._breaks == self._transport.breaks

    def _is_hopeless(self, now_ms: int) -> bool:
        return any(now_ms - made_ms > SOJOURN_MAX_MS for made_ms in self._marked.values())

    async def _begin_epoch(self) -> None:
        self._breaks = None
        epoch = await self._ledger.begin_beats()
        await self._transport.begin_epoch(epoch)
        # What broke before this look can only have cost heartbeats that were sent before the leases are re-armed.
        breaks = self._transport.breaks
        rearmed = await self._ledger.rearm(beat_epoch=epoch)
        self._marked.clear()
        self._breaks = breaks
        _log.info("heartbeats begin anew (epoch %d): %d leases got their full length again", epoch, rearmed)

    async def _process_first(self) -> None:
        """The first marker, or all heartbeats up to it. Taken off the list once they are in the ledger."""
        first = self._taken[0]
        if isinstance(first, Marker):
            await self._meet(first)
            del self._taken[0]
            return
        _, run = next(groupby(self._taken, key=lambda each: isinstance(each, RenewRequest)))
        requests = [each for each in run if isinstance(each, RenewRequest)]
        standings = await self._ledger.renew_all(requests)
        del self._taken[: len(requests)]
        for request, each in zip(requests, standings, strict=True):
            await self._say_verdicts(request, each)

    async def _meet(self, marker: Marker) -> None:
        """All that was confirmed before it is in the ledger."""
        now_ms = self._clock.boot_ms()
        made_ms = self._marked.get(marker.nonce)
        if made_ms is None or not self._is_whole() or now_ms - made_ms > SOJOURN_MAX_MS:
            return
        await self._expiry.end(stamp_ms=made_ms, now_ms=now_ms)
        del self._marked[marker.nonce]

    async def _say_verdicts(self, request: RenewRequest, standings: Sequence[Standing]) -> None:
        for beat, standing in zip(request.beats, standings, strict=True):
            if standing.status != "held":
                with suppress(TransportUnavailable):  # it will beat again, and be told again
                    await self._transport.tell(request.incarnation, Notice(lease=beat.lease, standing=standing))
