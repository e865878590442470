"""The contract of the transport, kept without a broker: by the ledger alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from planrun.clock import SystemClock
from planrun.core.flows import Notice
from planrun.core.offers import Offer
from planrun.transport.contract import WorkerTransport
from planrun.wiring import open_ledger, open_transport

from .actors import Actors, a_worker
from .manual_clock import ManualClock
from .transport_contract import Fleet, TransportContract


class Embedded(Fleet):
    async def join(self, incarnation: str) -> WorkerTransport:
        return open_transport(self.they.ledger, SystemClock.open_system(), a_worker(incarnation))

    async def pass_on(self, offer: Offer) -> None:
        """It lies in the ledger, which everybody can read."""

    async def tell(self, incarnation: str, notice: Notice) -> None: ...

    async def take_beats_in(self) -> None: ...


class TestEmbedded(TransportContract):
    @pytest.fixture
    async def fleet(self, clock: ManualClock, tmp_path: Path) -> AsyncIterator[Fleet]:
        ledger = open_ledger(f"sqlite:///{tmp_path}/ledger.db", clock=clock)
        yield Embedded(Actors(ledger, clock))
        await ledger.close()
