from __future__ import annotations

import pytest

from tests.orchestrator.fake_ledger import FakeLedger


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def ledger() -> FakeLedger:
    return FakeLedger()
