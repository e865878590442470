"""One file, one ledger, real clocks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from planrun.ledger.contract import Ledger
from planrun.wiring import open_ledger


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite:///{path}"


@pytest.fixture
async def ledger(url: str) -> AsyncIterator[Ledger]:
    ledger = open_ledger(url)
    yield ledger
    await ledger.close()
