"""The port of the transport: four flows and no more; at-least-once is all that it owes.

* offers: a job waits at an attempt. A hint, acknowledged as soon as the ledger has answered the grant;
* beats: a worker's heartbeats, in the order in which they were sent, to whoever sweeps;
* control: notices to one worker. Lossy: the truth is in the ledger's next answer;
* outlet: answers to an application's own queue.

Nothing of the protocol depends on a message that arrives, arrives once, or arrives in time. What a broker
that lost everything costs is the time until the offers go out again.

Source of the rules: docs/concepts/leases-and-fencing.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from planrun.core.flows import Marker, Notice
from planrun.core.messages import Lease, Message, RenewRequest, Standing
from planrun.core.offers import Offer


class Delivery(Protocol):
    """One offer in a worker's hands. Exactly one of the three is called; a connection that was lost calls `back`."""

    @property
    def offer(self) -> Offer: ...

    async def done(self, lease: Lease | None = None) -> None:
        """The ledger has answered, whatever it said: this offer need not come again. Milliseconds after the grant.

        Args:
            lease: What it has granted, if it has.
        """
        ...

    async def back(self) -> None:
        """Unharmed back in line, for whoever has room: no lease was taken, no attempt is spent."""
        ...

    async def strange(self, why: str) -> None:
        """The ledger knows no such job, or not this attempt yet: kept as evidence, and not offered again."""
        ...


class WorkerTransport(Protocol):
    """The end of one worker incarnation. It keeps itself connected; while it is not, there is just nothing to take.

    Raises (every method): nothing, unless it says so.
    """

    async def offers(self, free: int) -> Sequence[Delivery]:
        """What could be started now, the first one first, without waiting for more.

        Args:
            free: How many jobs could start now. 0: nothing is wanted, and no offer is held until more are.

        Raises:
            LedgerUnavailable: They cannot be asked for now (where offers are read from the ledger).
        """
        ...

    async def glance(self) -> Sequence[Delivery]:
        """What could follow a job that is about to end: only seen, so nothing need be given back.

        A broker shows nothing without handing it out: there it is always empty.

        Raises:
            LedgerUnavailable: As above.
        """
        ...

    async def changed(self, *, timeout_s: float) -> None:
        """Return when there may be a new offer or notice since the last call, or at the timeout."""
        ...

    async def beat(self, request: RenewRequest) -> Sequence[Standing] | None:
        """One heartbeat for all leases of the worker.

        Returns:
            Where the ledger itself answered: a standing for each beat. None: it has *arrived*, where the sweeper
            will meet it before it ends any of these leases; what it says is not known yet.

        Raises:
            LedgerUnavailable: Neither: nothing is known of it.
        """
        ...

    async def notices(self, leases: Sequence[Lease]) -> Sequence[Notice]:
        """What was said to this worker since the last call.

        Args:
            leases: What it believes to hold: only these can be news.

        Raises:
            LedgerUnavailable: As above.
        """
        ...

    async def close(self) -> None:
        """Give back every offer that is still held."""
        ...


class FleetTransport(Protocol):
    """The orchestrator's end.

    Raises (every method):
        TransportUnavailable: No confirmation: it may have arrived or not. Everything here may be repeated.
    """

    async def send_offer(self, lane: str, offer: Offer) -> None:
        """Into the lane of the machines that can run it."""
        ...

    async def waiting(self, lane: str) -> int:
        """How many offers lie in a lane that nobody has taken. A lane that does not exist has none."""
        ...

    async def begin_epoch(self, epoch: int) -> None:
        """From now on heartbeats arrive in a place of this epoch; what lies in older ones is dropped, unread.

        Whoever calls this gives all running leases their full length again *afterwards*.
        """
        ...

    async def beats(self, *, timeout_s: float) -> Sequence[RenewRequest | Marker]:
        """Heartbeats and markers of this epoch, in the order of their arrival. Empty at the timeout.

        What was returned is acknowledged at the next call: by then it is in the ledger.
        """
        ...

    async def mark(self, marker: Marker) -> None:
        """Put a marker behind every heartbeat that has arrived. Where no queue takes it, that counts as a break."""
        ...

    @property
    def breaks(self) -> int:
        """How often the way of the heartbeats was interrupted, so that some may be missing; then: a new epoch."""
        ...

    async def tell(self, incarnation: str, notice: Notice) -> None:
        """A word to one worker. It may get lost."""
        ...

    async def deliver(self, address: str, message: Message) -> None:
        """An answer, into an application's own queue: it is there, and durable, on return.

        Raises:
            Unroutable: There is no such queue.
            TransportUnavailable: Not confirmed.
        """
        ...

    async def orphans(self) -> int:
        """How many messages lie aside because the ledger did not know their job or attempt."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class BrokerReport:
    """Attributes:
    product: Name and version, as it says.
    round_trip_ms: From sending a message, over its confirmation, to its delivery.
    returns: It says so where it has no queue for a message; None: not found out.
    problems: What is wrong, and what to do; empty: all is well.
    """

    product: str
    round_trip_ms: int | None
    returns: bool | None
    problems: tuple[str, ...]
