from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.jobs.stage import Stage


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    if hasattr(stage, "process"):
        await stage.process.kill()
