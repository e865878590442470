"""What the orchestrator of a fleet does beside the duties of a box."""

from __future__ import annotations

from planrun.clock import Clock
from planrun.ledger.fleet import FleetLedger
from planrun.orchestrator.beats import Beats
from planrun.orchestrator.dispatcher import Dispatcher
from planrun.orchestrator.duties import Loop
from planrun.orchestrator.expiry import Expiry, FleetExpiry
from planrun.orchestrator.notices import Notices
from planrun.transport.contract import FleetTransport


def fleet_duties(ledger: FleetLedger, transport: FleetTransport | None, clock: Clock) -> tuple[Expiry, list[Loop]]:
    """How leases end there, for the sweeper, and what else is to be done again and again.

    Args:
        transport: None: workers read offers from the ledger, and renew by asking it.
    """
    if transport is None:
        return FleetExpiry(ledger), []
    beats = Beats(ledger, transport, clock)
    return beats, [
        Loop("take in heartbeats", beats.take_in, on_change=False, is_vital=True),
        Loop("tell workers", Notices(ledger, transport).tick),
        Loop("offer jobs", Dispatcher(ledger, transport, clock).tick, at_once=True),
    ]
