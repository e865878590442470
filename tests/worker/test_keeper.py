"""The heartbeat of all leases survives whatever goes wrong with one of them."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from planrun.clock import SystemClock
from planrun.core.messages import Beat, Lease, RenewRequest, Standing
from planrun.ledger.contract import Ledger
from planrun.worker.keeper import Keeper
from planrun.worker.options import WorkerOptions

pytestmark = pytest.mark.anyio


class Choking:
    """A ledger that no progress report gets through to."""

    async def renew(self, request: RenewRequest) -> list[Standing]:
        if any(beat.message for beat in request.beats):
            raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")
        return [Standing(status="held") for _ in request.beats]


async def test_a_heartbeat_that_a_fault_swallows_is_followed_by_one_without_the_news(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = SystemClock.open_system()
    keeper = Keeper(cast("Ledger", Choking()), clock, WorkerOptions(modules=(), lease_s=60), "w1")
    holdings: list[Any] = [
        keeper.hold(Lease(job_id=f"j{n}", attempt=1, token=n), asked_ms=clock.boot_ms() - 50_000) for n in (1, 2)
    ]
    trusted = [holding.belief.trusted_until_ms for holding in holdings]
    holdings[0].say(0.5, "the news")

    await keeper.tick()
    assert [holding.belief.trusted_until_ms for holding in holdings] == trusted
    assert "a heartbeat failed" in caplog.text

    await keeper.tick()
    assert all(holding.belief.trusted_until_ms > trusted[0] + 40_000 for holding in holdings)


class Noting:
    """A ledger that renews everything, and notes what it was told."""

    def __init__(self) -> None:
        self.told: asyncio.Queue[Beat] = asyncio.Queue()

    async def renew(self, request: RenewRequest) -> list[Standing]:
        for beat in request.beats:
            self.told.put_nowait(beat)
        return [Standing(status="held") for _ in request.beats]


async def test_progress_does_not_wait_for_the_next_renewal() -> None:
    """Renewals of a lease of an hour are 20 minutes apart; what the job says goes out within about a second."""
    clock, ledger, stop = SystemClock.open_system(), Noting(), asyncio.Event()
    keeper = Keeper(cast("Ledger", ledger), clock, WorkerOptions(modules=(), lease_s=3600), "w1")
    running = asyncio.create_task(keeper.run(stop))
    try:
        holding = keeper.hold(Lease(job_id="j1", attempt=1, token=1), asked_ms=clock.boot_ms())
        said = []
        for fraction in (0.1, 0.2):
            await asyncio.sleep(0)  # the keeper waits for the next renewal by now
            holding.say(fraction - 0.01, "early")
            holding.say(fraction, "late")
            said.append((await asyncio.wait_for(ledger.told.get(), 10)).fraction)
    finally:
        stop.set()
        await running

    assert said == [0.1, 0.2]
    assert ledger.told.empty()
