"""What a worker may stand on."""

from __future__ import annotations

from pathlib import Path

import pytest

from planrun.clock import SystemClock
from planrun.core.errors import LedgerUnusable
from planrun.wiring import chronicle_of, open_ledger
from planrun.wiring.ground import open_ground

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_a_ledger_that_says_no_answer_by_itself_has_no_workers_without_its_orchestrator(tmp_path: Path) -> None:
    """Their jobs would end, and nobody would ever hear how."""
    url = f"sqlite:///{tmp_path}/ledger.db"
    async with open_ground(url, "", SystemClock.open_system()) as ground:
        await chronicle_of(ground.ledger).be_strict()

    with pytest.raises(LedgerUnusable, match="start `planrun orchestrator`"):
        async with open_ground(url, "", SystemClock.open_system()):
            pass
    ledger = open_ledger(url)  # whoever only asks goes on
    assert (await ledger.counts(None))["queued"] == 0
    await ledger.close()
