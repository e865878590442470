from __future__ import annotations

import pytest

from tests.orchestrator.fake_ledger import FakeLedger


@pytest.fixture
def ledger() -> FakeLedger:
    return FakeLedger()
