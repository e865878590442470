"""The story of the ledger, told on the SQLite file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from planrun.ledger.contract import Ledger
from planrun.wiring import open_ledger

from .ledger_story import LedgerStory
from .manual_clock import ManualClock


@settings(max_examples=20, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
class SqliteStory(LedgerStory):
    def open_ledger(self, folder: Path, clock: ManualClock) -> Ledger:
        return open_ledger(f"sqlite:///{folder}/ledger.db", clock=clock)


TestSqliteStory = pytest.mark.slow(SqliteStory.TestCase)
