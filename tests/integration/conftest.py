from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.lab import Lab


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    lab = Lab(tmp_path)
    yield lab
    await lab.close()
