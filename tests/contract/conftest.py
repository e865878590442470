"""What every contract test has: asyncio alone, and a clock that only the test moves."""

from __future__ import annotations

import pytest

from .manual_clock import ManualClock


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()
