"""What was decided over a worker's head reaches it at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from planrun.core.drains import DrainRequest
from planrun.ledger.fleet import FleetLedger
from planrun.orchestrator.notices import Notices
from planrun.wiring import open_fleet_ledger
from tests.contract.actors import Actors
from tests.contract.manual_clock import ManualClock
from tests.orchestrator.memory_transport import MemoryTransport

pytestmark = pytest.mark.anyio


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[FleetLedger]:
    ledger = open_fleet_ledger(f"sqlite:///{tmp_path}/ledger.db", clock=ManualClock())
    yield ledger
    await ledger.close()


async def test_a_cancel_is_told_to_the_worker_that_runs_the_job_and_to_nobody_else(ledger: FleetLedger) -> None:
    they, transport = Actors(ledger, ManualClock()), MemoryTransport()
    notices = Notices(ledger, transport)
    running, other = await they.running(by="w1"), await they.running(by="w2", content="other")
    waiting = await they.submit(content="waiting")
    await notices.tick(0)
    assert transport.told == {}

    for job_id in (running.job_id, waiting.job_id):
        await they.cancel(job_id)
    await they.succeed(other)
    await notices.tick(0)
    await notices.tick(0)

    [notice] = transport.told.pop("w1")
    assert notice.lease == running
    assert notice.standing is not None
    assert notice.standing.status == "canceled"
    assert transport.told == {}


async def test_a_drain_and_its_undoing_are_told(ledger: FleetLedger) -> None:
    they, transport = Actors(ledger, ManualClock()), MemoryTransport()
    notices = Notices(ledger, transport)
    for name in ("w1", "w2"):
        await they.register(name)

    await ledger.drain(DrainRequest(incarnations=("w1",)))
    await notices.tick(0)
    await ledger.undrain(DrainRequest(incarnations=("w1",)))
    await notices.tick(0)

    assert [notice.drained for notice in transport.told.pop("w1")] == [True, False]
    assert transport.told == {}
