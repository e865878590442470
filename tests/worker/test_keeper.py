"""The heartbeat of all leases survives whatever goes wrong with one of them."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from planrun.clock import SystemClock
from planrun.core.messages import Lease, RenewRequest, Standing
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


async def test_what_a_job_says_first_does_not_wait_for_the_next_renewal() -> None:
    """A lease of a minute is renewed every 20 seconds; whoever watches a job sees its progress after one."""
    said = asyncio.Event()

    class Listening:
        async def renew(self, request: RenewRequest) -> list[Standing]:
            if any(beat.fraction is not None for beat in request.beats):
                said.set()
            return [Standing(status="held") for _ in request.beats]

    clock = SystemClock.open_system()
    keeper = Keeper(cast("Ledger", Listening()), clock, WorkerOptions(modules=(), lease_s=60), "w1")
    stop = asyncio.Event()
    running = asyncio.create_task(keeper.run(stop))
    holding = keeper.hold(Lease(job_id="j", attempt=1, token=1), asked_ms=clock.boot_ms())
    for _ in range(5):  # it looks when to renew, before the job has said anything
        await asyncio.sleep(0)
    holding.say(0.1, None)

    await asyncio.wait_for(said.wait(), 10)
    stop.set()
    await running
