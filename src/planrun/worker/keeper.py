"""One heartbeat for all leases of a worker, that neither job code nor uploads can starve.

Job code runs in other processes and uploads in threads, so the loop that renews is always free. A lease
is renewed every third of its length; progress rides along, at most once a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from planrun.clock import Clock
from planrun.complaints import Complaints
from planrun.core.errors import LedgerUnavailable, LedgerUnusable
from planrun.core.flows import Notice
from planrun.core.lease import HeldLease
from planrun.core.messages import Beat, Lease, RenewRequest, Standing
from planrun.service import Returns
from planrun.transport.contract import WorkerTransport
from planrun.worker.options import WorkerOptions

log = logging.getLogger(__name__)

PROGRESS_MS = 1_000
WAIT_S_MAX = 1.0  # while the machine sleeps timers stand still, and leases do not
LOOP = "keep leases"
TRY_AGAIN_MS = 200  # once the ledger can be written again, holders have a moment to renew that is longer


@dataclass(eq=False)
class Holding:
    """One lease in the keeper's hands.

    Attributes:
        belief: Until when the holder may trust itself when nobody answers.
        verdict: Set once the ledger said that the lease is lost or canceled.
        on_end: Called then.
        on_news: Called where a job says something while nothing else of it waits: the next heartbeat may come sooner.
    """

    lease: Lease
    belief: HeldLease
    verdict: Standing | None = None
    on_end: Callable[[], None] = field(default=lambda: None)
    on_news: Callable[[], None] = field(default=lambda: None)
    fraction: float | None = None
    message: str | None = None
    _unsaid: bool = False

    def say(self, fraction: float | None, message: str | None) -> None:
        """What the job says of itself; goes out with the next heartbeat."""
        if not self._unsaid:
            self.on_news()
        self.fraction, self.message, self._unsaid = fraction, message, True

    def may_act(self, now_ms: int) -> bool:
        """Without asking: neither told that it is over, nor past the own deadline."""
        self.belief = self.belief.observed(now_ms=now_ms)
        return not self.is_over and self.belief.is_trusted(now_ms=now_ms)

    def take_beat(self) -> Beat:
        """What the next heartbeat says of this lease."""
        if not self._unsaid:
            return Beat(lease=self.lease)
        self._unsaid = False
        return Beat(lease=self.lease, fraction=self.fraction, message=self.message)

    def unsay(self) -> None:
        """The heartbeat did not arrive: say it again."""
        self._unsaid = self.fraction is not None or self.message is not None

    def end(self, verdict: Standing) -> None:
        if self.verdict is None:
            self.verdict = verdict
            self.on_end()

    @property
    def is_over(self) -> bool:
        return self.verdict is not None

    @property
    def has_news(self) -> bool:
        return self._unsaid


class Keeper:
    """All leases of one worker incarnation.

    Attributes:
        returns: By when it comes back, and by when those do who work beside it.
    """

    def __init__(self, transport: WorkerTransport, clock: Clock, options: WorkerOptions, incarnation: str) -> None:
        self._transport = transport
        self._clock = clock
        self._incarnation = incarnation
        self._lease_ms = options.lease_ms
        self._heartbeat_ms = options.heartbeat_ms
        self._holdings: dict[int, Holding] = {}
        self._changed = asyncio.Event()
        self._sent_ms = clock.boot_ms()
        self._complaints = Complaints(log, clock)
        self.returns = Returns()

    def hold(self, lease: Lease, *, asked_ms: int) -> Holding:
        """Take a fresh lease into care.

        Args:
            asked_ms: When the grant was asked for, boottime: trust counts from there.
        """
        belief = HeldLease(
            job_id=lease.job_id,
            attempt=lease.attempt,
            token=lease.token,
            lease_ms=self._lease_ms,
            trusted_until_ms=asked_ms + self._lease_ms,
        )
        if not self._holdings:
            self._sent_ms = max(self._sent_ms, asked_ms)  # the grant was a sign of life
        if self._clock.boot_ms() - asked_ms >= self._heartbeat_ms:  # answered late: little of the lease may be left
            self._sent_ms = min(self._sent_ms, asked_ms)
            self._changed.set()
        # Whoever waits for the next heartbeat comes back in time for this one, too.
        holding = self._holdings[lease.token] = Holding(lease, belief, on_news=self._changed.set)
        return holding

    def drop(self, lease: Lease) -> None:
        """The lease is settled, released or lost."""
        self._holdings.pop(lease.token, None)

    async def run(self, stop: asyncio.Event) -> None:
        """Renew for ever, until told to stop; whatever fails is tried again soon."""
        stopping = asyncio.ensure_future(stop.wait())
        try:
            while not stop.is_set():
                self._changed.clear()
                changed = asyncio.ensure_future(self._changed.wait())
                wait_s = self._wait_s()
                self.returns.say(LOOP, self._clock.boot_ms() + round(wait_s * 1000))
                await asyncio.wait({stopping, changed}, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
                if self._is_due():
                    await self.tick()
        finally:
            stopping.cancel()

    async def tick(self) -> None:
        """One heartbeat. An unanswered one changes nothing: trust runs on from the last answer."""
        holdings = list(self._holdings.values())
        sent_ms = self._sent_ms = self._clock.boot_ms()
        beats = tuple(holding.take_beat() for holding in holdings)
        request = RenewRequest(incarnation=self._incarnation, beats=beats, lease_ms=self._lease_ms)
        try:
            standings = await self._transport.beat(request)
        except (LedgerUnavailable, LedgerUnusable) as error:
            for holding in holdings:
                holding.unsay()
            self._complaints.say("heartbeat", f"heartbeat unanswered, will try again: {error}")
            self._sent_ms = self._clock.boot_ms() - self._heartbeat_ms + min(TRY_AGAIN_MS, self._heartbeat_ms // 2)
            return
        except Exception:  # a fault of planrun: without what the jobs said of themselves the next one may get through
            log.exception("a heartbeat failed, will try again")
            return
        self._complaints.over("heartbeat")
        if standings is None:
            now_ms = self._clock.boot_ms()
            for holding in holdings:
                holding.belief = holding.belief.confirmed(sent_ms=sent_ms, now_ms=now_ms)
            return
        for holding, standing in zip(holdings, standings, strict=True):
            if standing.status == "held":
                holding.belief = holding.belief.answered(sent_ms=sent_ms)
            else:
                holding.end(standing)

    def trusts(self, token: int) -> bool:
        """Would the holder of that lease act on its own right now?"""
        holding = self._holdings.get(token)
        return holding is not None and not holding.is_over and holding.belief.is_trusted(now_ms=self._clock.boot_ms())

    @property
    def leases(self) -> Sequence[Lease]:
        """Those that are not known to be over."""
        return [holding.lease for holding in self._holdings.values() if not holding.is_over]

    async def hear(self, notices: Sequence[Notice]) -> None:
        """Leases of ours may have ended; where nobody says how, a heartbeat asks."""
        must_ask = False
        for notice in notices:
            holding = self._holdings.get(notice.lease.token) if notice.lease is not None else None
            if holding is None or holding.is_over or holding.lease != notice.lease:
                continue
            if notice.standing is None:
                must_ask = True
            elif notice.standing.status != "held":
                holding.end(notice.standing)
        if must_ask:
            await self.tick()

    def _wait_s(self) -> float:
        passed_ms = self._clock.boot_ms() - self._sent_ms
        period_ms = min(PROGRESS_MS, self._heartbeat_ms) if self._has_news() else self._heartbeat_ms
        if not self._holdings:
            return min(5.0, self._heartbeat_ms / 1000)
        return min(WAIT_S_MAX, max(0.005, (period_ms - passed_ms) / 1000))

    def _is_due(self) -> bool:
        passed_ms = self._clock.boot_ms() - self._sent_ms
        return passed_ms >= self._heartbeat_ms or (self._has_news() and passed_ms >= PROGRESS_MS)

    def _has_news(self) -> bool:
        return any(holding.has_news for holding in self._holdings.values())
