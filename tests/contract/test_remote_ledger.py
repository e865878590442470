"""The contract of the ledger, kept over HTTP: a real server on a free port, over a SQLite file.

Verbs that are served go over the network; duties go to the server's own ledger, as in a fleet. The clock that the tests
move is the server's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from planrun.client import AsyncClient
from planrun.core.fleet import Fleet
from planrun.ledger.contract import Ledger
from planrun.ledger.wire import VERBS
from planrun.web.guard import Guard
from planrun.web.ledger import Served
from planrun.web.server import address_of, open_socket, server_of
from planrun.wiring import open_ledger as open_at
from planrun.wiring import open_store

from .cancel_contract import CancelContract
from .checkpoint_contract import CheckpointContract
from .crowd_contract import CrowdContract
from .grant_contract import GrantContract
from .lease_contract import LeaseContract
from .ledger_contract import LedgerContract, OpenLedger
from .listing_contract import ListingContract
from .manual_clock import ManualClock
from .operator_contract import OperatorContract
from .outbox_contract import OutboxContract
from .public_name_contract import PublicNameContract
from .retention_contract import RetentionContract
from .settle_contract import SettleContract
from .submit_contract import SubmitContract


class InFleet:
    """What a worker or client asks, and what the orchestrator does, as one ledger for the suites."""

    def __init__(self, remote: Ledger, own: Ledger) -> None:
        self._remote = remote
        self._own = own

    def __getattr__(self, name: str) -> Any:
        return getattr(self._remote if name in VERBS else self._own, name)

    async def close(self) -> None:
        await self._remote.close()
        await self._own.close()


class RemoteLedger(LedgerContract):
    @pytest.fixture
    async def open_ledger(self, clock: ManualClock, tmp_path: Path) -> AsyncIterator[OpenLedger]:
        url = f"sqlite:///{tmp_path}/ledger.db"
        served = open_at(url, clock=clock)
        client = AsyncClient.over(served, open_store(url), url=url, clock=clock)
        listening = open_socket("127.0.0.1:0", is_guarded=False, is_secure=False)
        server = server_of(client, Guard(), served=Served.over(served, clock, Fleet(store=str(tmp_path))))
        serving = asyncio.create_task(server.serve([listening]))
        opened: list[Ledger] = []

        async def open_one() -> Ledger:
            remote = open_at(address_of(listening), clock=clock)
            opened.append(cast("Ledger", InFleet(remote, open_at(url, clock=clock))))
            return opened[-1]

        yield open_one
        for ledger in opened:
            await ledger.close()
        server.should_exit = True
        await serving
        await served.close()


class TestSubmit(RemoteLedger, SubmitContract): ...


class TestGrant(RemoteLedger, GrantContract): ...


class TestLease(RemoteLedger, LeaseContract): ...


class TestCheckpoint(RemoteLedger, CheckpointContract): ...


class TestSettle(RemoteLedger, SettleContract): ...


class TestCancel(RemoteLedger, CancelContract): ...


class TestOutbox(RemoteLedger, OutboxContract): ...


class TestOperator(RemoteLedger, OperatorContract): ...


class TestPublicName(RemoteLedger, PublicNameContract): ...


class TestRetention(RemoteLedger, RetentionContract): ...


class TestCrowd(RemoteLedger, CrowdContract): ...


class TestListing(RemoteLedger, ListingContract): ...
