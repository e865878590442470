"""The four flows without a broker: offers are read straight from the ledger, a heartbeat is one of its transactions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import msgspec

from planrun.clock import Clock
from planrun.core.errors import LedgerUnavailable
from planrun.core.flows import Notice
from planrun.core.messages import Lease, RenewRequest, Standing
from planrun.core.offers import Offer, OfferQuery, oldest_at, since_oldest
from planrun.ledger.contract import Ledger
from planrun.transport.hearing import Hearing

log = logging.getLogger(__name__)

SPARE_OFFERS = 8  # others look at the same line; some of these will be gone
LOOK_S = 5.0
BETWEEN_LOOKS_S = 0.01  # changes that come in a burst count once
UNAVAILABLE_S = 1.0


class EmbeddedTransport:
    """A worker's end. Implements `planrun.transport.contract.WorkerTransport`."""

    def __init__(self, ledger: Ledger, clock: Clock, incarnation: str, query: OfferQuery) -> None:
        """
        Args:
            query: What the worker can run; where the line begins is filled in here.
        """
        self._ledger = ledger
        self._clock = clock
        self._incarnation = incarnation
        self._query = query
        self._since_oldest: int | None = None  # starts since the last one by age
        self._hearing = Hearing()
        self._own_row = asyncio.Event()
        self._watching: list[asyncio.Task[None]] = []

    async def offers(self, free: int) -> Sequence[LedgerOffer]:
        if free <= 0:
            return ()
        query = msgspec.structs.replace(
            self._query, limit=free + SPARE_OFFERS, oldest_at=oldest_at(self._since_oldest or 0, free)
        )
        return [LedgerOffer(offer, self) for offer in await self._ledger.offers(query)]

    async def glance(self) -> Sequence[LedgerOffer]:
        return await self.offers(1)

    async def changed(self, *, timeout_s: float) -> None:
        if not self._watching:
            self._watching = [
                asyncio.create_task(watch) for watch in (self._watch(), self._watch(self._incarnation, self._own_row))
            ]
        await self._hearing.changed(timeout_s=timeout_s)

    async def beat(self, request: RenewRequest) -> Sequence[Standing]:
        return await self._ledger.renew(request)

    async def notices(self, leases: Sequence[Lease]) -> Sequence[Notice]:
        """A cheap read says which leases have ended; how, the next heartbeat will."""
        held = set(await self._ledger.held(self._incarnation)) if leases else set()
        notices = [Notice(lease=lease) for lease in leases if lease not in held]
        if self._own_row.is_set():
            row = await self._ledger.worker(self._incarnation)
            self._own_row.clear()
            notices.append(Notice(drained=row is not None and row.state == "draining"))
        return notices

    async def close(self) -> None:
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)

    def granted(self, offer: Offer, lease: Lease) -> None:
        """Count the start: now and then one goes by age."""
        self._since_oldest = since_oldest(self._since_oldest, offer, lease)

    async def _watch(self, about: str | None = None, seen: asyncio.Event | None = None) -> None:
        """The ledger tells a task what is new to that task: so each of the two watches has its own."""
        while True:
            try:
                await self._ledger.changed(timeout_s=LOOK_S, about=about)
            except LedgerUnavailable:  # said by whoever asks it for something
                await self._clock.sleep(UNAVAILABLE_S)
            if seen is not None:
                seen.set()
            self._hearing.ring()
            await self._clock.sleep(BETWEEN_LOOKS_S)


class LedgerOffer:
    """A line of the ledger: to look at it took it from nobody, so there is nothing to give back."""

    def __init__(self, offer: Offer, transport: EmbeddedTransport) -> None:
        self.offer = offer
        self._transport = transport

    async def done(self, lease: Lease | None = None) -> None:
        if lease is not None:
            self._transport.granted(self.offer, lease)

    async def back(self) -> None:
        pass

    async def strange(self, why: str) -> None:
        log.warning("job %s attempt %d was offered, and then not known: %s", self.offer.job_id, self.offer.attempt, why)
