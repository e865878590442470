"""Telling workers at once what was decided over their head: a cancel, a lost lease, a drain.

A word that gets lost, or was never sent, costs time alone: the worker's next heartbeat is answered with the same.
"""

from __future__ import annotations

from planrun.core.flows import Notice
from planrun.core.messages import Standing
from planrun.ledger.fleet import FleetLedger
from planrun.orchestrator.changes import Changes
from planrun.transport.contract import FleetTransport

LOOK_EVERY_MS = 5_000


class Notices:
    """Follows the changes of the ledger."""

    def __init__(self, ledger: FleetLedger, transport: FleetTransport) -> None:
        self._ledger = ledger
        self._transport = transport
        self._changes = Changes(ledger)

    async def tick(self, now_ms: int) -> int:
        """Tell what has changed; returns when to look again, unless the ledger changes earlier."""
        if names := self._changes.take():
            for each in await self._ledger.astray(names):
                notice = Notice(lease=each.lease, standing=Standing(status=each.status, why=each.why))
                await self._transport.tell(each.incarnation, notice)
            for worker in await self._ledger.workers_among(names):
                await self._transport.tell(worker.incarnation, Notice(drained=worker.state == "draining"))
        return now_ms + LOOK_EVERY_MS
