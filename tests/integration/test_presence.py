"""Who is there, as `planrun workers` shows it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from planrun.client import AsyncClient
from planrun.clock import Clock, Instant, SystemClock
from planrun.core.life import State
from planrun.core.listing import ListQuery
from planrun.core.presence import FORGOTTEN_AFTER_MS
from planrun.wiring import open_store
from tests.lab import Lab

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@dataclass(frozen=True)
class Later:
    """The system's clock, so much later by the wall."""

    real: Clock
    later_ms: int

    def now(self) -> Instant:
        now = self.real.now()
        return Instant(now.boot_ms, now.wall_ms + self.later_ms, now.epoch)

    def boot_ms(self) -> int:
        return self.real.boot_ms()

    def new_id(self) -> str:
        return self.real.new_id()

    async def sleep(self, seconds: float) -> None:
        await self.real.sleep(seconds)


async def test_c74_killed_workers_are_lost_and_run_nothing_and_a_day_later_nobody_lists_them(lab: Lab) -> None:
    """Three of five are killed: no phantom of them counts as running, and none of them as ready."""
    workers = [lab.start_worker() for _ in range(5)]
    await lab.ready(5)
    for _ in range(5):
        await lab.submit("nap", {"seconds": 60})
    client = AsyncClient.over(lab.ledger, open_store(lab.url), url=lab.url, clock=SystemClock.open_system())

    async def all_run() -> bool:
        return [seen.running for seen in await client.workers()] == [1] * 5

    await lab.until(all_run, "each of them runs a job")
    for worker in workers[:3]:
        worker.kill()
    killed = {worker.process.pid for worker in workers[:3]}

    async def lost() -> bool:
        seen = await client.workers()
        rows, _ = await lab.ledger.jobs(ListQuery(state=State.RUNNING))
        return (
            {worker.pid for worker in seen if worker.state == "lost"} == killed
            and {worker.running for worker in seen if worker.pid in killed} == {0}
            and sum(worker.running for worker in seen) == len(rows) == 2
        )

    await lab.until(lost, "three are lost and what they ran waits again")
    later = Later(SystemClock.open_system(), FORGOTTEN_AFTER_MS + 60_000)
    assert await AsyncClient.over(lab.ledger, open_store(lab.url), url=lab.url, clock=later).workers() == []
