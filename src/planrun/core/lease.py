"""The holder's view of its lease: until when it may trust itself when nobody answers.

The order of trust at every effect is: the ledger's answer, then this deadline. Visibility depends
on neither (the settled row decides), so a wrong deadline wastes work and nothing else.

Three rules:

* trust counts from the moment a renewal was *sent*: a slow answer can only shorten it;
* expiry is *sticky*: once the deadline has passed, a mere confirmation that a heartbeat arrived
  cannot revive the lease, only an answer of the ledger itself can;
* all times are CLOCK_BOOTTIME milliseconds, which count a suspended machine's sleep.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from msgspec import Meta

LEASE_S_MAX = 30 * 86_400
LeaseMs = Annotated[int, Meta(ge=1, le=LEASE_S_MAX * 1000)]  # what nobody could mean is refused before it is read


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLease:
    """One granted attempt, as its holder sees it.

    Attributes:
        lease_ms: Length of the lease that the holder allows itself, milliseconds.
        trusted_until_ms: Boottime milliseconds; from then on the holder does not trust itself.
        expired: The deadline was seen to pass. Sticky.
    """

    job_id: str
    attempt: int
    token: int
    lease_ms: int
    trusted_until_ms: int
    expired: bool = False

    def is_trusted(self, *, now_ms: int) -> bool:
        """May the holder act on its own, without an answer of the ledger?"""
        return not self.expired and now_ms < self.trusted_until_ms

    def confirmed(self, *, sent_ms: int, now_ms: int) -> HeldLease:
        """A renewal sent at `sent_ms` is known to have *arrived*, not to have been processed."""
        if self.expired or now_ms >= self.trusted_until_ms:
            return replace(self, expired=True)
        return self._extended(sent_ms)

    def answered(self, *, sent_ms: int) -> HeldLease:
        """The ledger itself said that the lease is held. Only this revives an expired one."""
        return replace(self._extended(sent_ms), expired=False)

    def observed(self, *, now_ms: int) -> HeldLease:
        """Look at the clock, and remember if the deadline has passed."""
        if self.expired or now_ms < self.trusted_until_ms:
            return self
        return replace(self, expired=True)

    def _extended(self, sent_ms: int) -> HeldLease:
        until_ms = max(self.trusted_until_ms, sent_ms + self.lease_ms)
        return replace(self, trusted_until_ms=until_ms)


def heartbeat_ms(lease_ms: int) -> int:
    """How often a holder renews: a third of the lease, at most every 30 s."""
    return min(lease_ms // 3, 30_000)


def fleet_lease_ms(lease_ms: int) -> int:
    """How long the ledger waits for a holder on another machine that allows itself so much.

    Longer by what two clocks may differ in their rates (500 ppm each, twice that to be safe), and by 2 s for
    rounding and scheduling: the holder stops to trust itself before anybody else may take over.
    """
    return lease_ms + lease_ms * 2 // 1000 + 2_000
