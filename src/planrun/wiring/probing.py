"""What `planrun check` and `planrun verify` ask of an orchestrator and a broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from planrun.clock import Clock
from planrun.core.access import Caller, Scope
from planrun.core.fleet import Fleet
from planrun.transport.contract import BrokerReport
from planrun.wiring import open_ledger, rabbitmq_ends, remote_logs


@dataclass(frozen=True, slots=True)
class Met:
    """An orchestrator, as it answered.

    Attributes:
        generation: Of its ledger.
        ahead_ms: How far its wall clock is ahead of this one, as far as can be told.
        fleet: What it tells workers; None: the caller's token is not one of a worker.
    """

    caller: Caller
    generation: int
    ahead_ms: int
    fleet: Fleet | None


class Listener(Protocol):
    """A queue of an application's own, on the broker of a fleet.

    Attributes:
        bodies: All that arrived, copies too.
    """

    bodies: list[str]

    async def listen(self) -> None:
        """Make it, and go on whenever the connection was lost.

        Raises:
            TransportUnavailable: The broker does not answer, or its account may not do this.
        """
        ...

    async def close(self) -> None:
        """Delete it."""
        ...


async def meet(url: str, clock: Clock) -> Met:
    """Ask an orchestrator who it is, and what the token of this process is for.

    Raises:
        LedgerUnavailable, LedgerUnusable: As every verb of its ledger.
    """
    ledger = open_ledger(url, clock=clock)
    try:
        remote = remote_logs(ledger)
        assert remote is not None
        before = clock.now()
        caller = await remote.me()
        took_ms = clock.boot_ms() - before.boot_ms
        fleet = await remote.fleet() if Scope.WORK in caller.scopes else None
        return Met(caller, remote.generation, caller.wall_ms - before.wall_ms - took_ms // 2, fleet)
    finally:
        await ledger.close()


async def probe_broker(url: str, prefix: str, clock: Clock, *, owns: bool) -> BrokerReport:
    """Find out what a broker really does for a fleet.

    Args:
        owns: As the orchestrator uses it.

    Raises:
        Invalid: Not an address of one, or what is needed for it is not installed.
        TransportUnavailable: It cannot be reached, or lets nobody in.
    """
    ends = rabbitmq_ends()
    report: BrokerReport = await ends.probe(ends.broker_at(url, prefix), clock, owns=owns)
    return report


def open_listener(url: str, queue: str, clock: Clock) -> Listener:
    """A queue of one's own, to see what arrives. It is made when it is asked to listen.

    Raises:
        Invalid: Not the address of a broker, or what is needed for it is not installed.
    """
    ends = rabbitmq_ends()
    link = ends.Link(ends.broker_at(url, "pr").url, clock, name="planrun verify")
    listener: Listener = ends.Listener(link, queue)
    return listener
