"""What every ledger must do, whatever it is made of.

A suite is a class per topic (submit, grant, settle, lease, checkpoint, cancel, operator, outbox, retention,
public name, crowd, listing, fleet).
A backend's module inherits each of them and gives the one abstract fixture, `open_ledger`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from planrun.ledger.contract import Ledger

from .actors import Actors
from .manual_clock import ManualClock

OpenLedger = Callable[[], Awaitable[Ledger]]


@pytest.mark.anyio
class LedgerContract:
    """Base of the suites."""

    @pytest.fixture
    async def open_ledger(self, clock: ManualClock) -> AsyncIterator[OpenLedger]:
        """Yields a function that opens the same, at first empty, ledger; again for a second party."""
        raise NotImplementedError("each backend opens its own ledger")
        yield  # pragma: no cover

    @pytest.fixture
    async def ledger(self, open_ledger: OpenLedger) -> Ledger:
        return await open_ledger()

    @pytest.fixture
    async def they(self, ledger: Ledger, clock: ManualClock) -> Actors:
        """Client, workers and sweeper of this test's ledger."""
        return Actors(ledger, clock)
