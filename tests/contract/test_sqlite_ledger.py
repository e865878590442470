"""The contract of the ledger, kept by the SQLite file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from planrun.ledger.chronicle import Chronicle
from planrun.ledger.contract import Ledger
from planrun.wiring import chronicle_of, open_fleet_ledger
from planrun.wiring import open_ledger as open_at

from .cancel_contract import CancelContract
from .checkpoint_contract import CheckpointContract
from .closing_contract import ClosingContract
from .crowd_contract import CrowdContract
from .fleet_contract import FleetContract
from .grant_contract import GrantContract
from .lease_contract import LeaseContract
from .ledger_contract import LedgerContract, OpenLedger
from .listing_contract import ListingContract
from .manual_clock import ManualClock
from .operator_contract import OperatorContract
from .outbox_contract import OutboxContract
from .public_name_contract import PublicNameContract
from .recovery_contract import RecoveryContract
from .retention_contract import RetentionContract
from .settle_contract import SettleContract
from .submit_contract import SubmitContract


class SqliteLedger(LedgerContract):
    @pytest.fixture
    async def open_ledger(self, clock: ManualClock, tmp_path: Path) -> AsyncIterator[OpenLedger]:
        opened: list[Ledger] = []

        async def open_one() -> Ledger:
            opened.append(open_at(f"sqlite:///{tmp_path}/ledger.db", clock=clock))
            return opened[-1]

        yield open_one
        for ledger in opened:
            await ledger.close()


class TestSubmit(SqliteLedger, SubmitContract): ...


class TestGrant(SqliteLedger, GrantContract): ...


class TestLease(SqliteLedger, LeaseContract): ...


class TestCheckpoint(SqliteLedger, CheckpointContract): ...


class TestSettle(SqliteLedger, SettleContract): ...


class TestCancel(SqliteLedger, CancelContract): ...


class TestOutbox(SqliteLedger, OutboxContract): ...


class TestOperator(SqliteLedger, OperatorContract): ...


class TestPublicName(SqliteLedger, PublicNameContract): ...


class TestRetention(SqliteLedger, RetentionContract): ...


class TestCrowd(SqliteLedger, CrowdContract): ...


class TestListing(SqliteLedger, ListingContract): ...


class SqliteChronicle(SqliteLedger):
    @pytest.fixture
    def chronicle(self, ledger: Ledger) -> Chronicle:
        return chronicle_of(ledger)


class TestClosing(SqliteChronicle, ClosingContract): ...


class TestRecovery(SqliteChronicle, RecoveryContract): ...


class TestFleet(FleetContract):
    @pytest.fixture
    async def open_ledger(self, clock: ManualClock, tmp_path: Path) -> AsyncIterator[OpenLedger]:
        ledger = open_fleet_ledger(f"sqlite:///{tmp_path}/ledger.db", clock=clock, broker_prefix="pr")

        async def open_one() -> Ledger:
            return ledger

        yield open_one
        await ledger.close()
