"""1 000 cancels cross a claim, a finish or a hand-back: state, message, file and processes agree afterwards.

The seed is printed: CHAOS_SEED repeats it.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

from planrun.core.life import Outcome, State
from planrun.core.messages import CancelReply
from tests.lab import Lab, WorkerProcess

BATCH = 16
DEAD_WITHIN_MS = 2_000


class Crossings:
    """Batches of jobs that are all canceled at some moment of the same change."""

    def __init__(self, lab: Lab, seed: int) -> None:
        self._lab = lab
        self._chance = random.Random(seed)
        self._worker: WorkerProcess
        self.ends: Counter[str] = Counter()
        self.dead_after_ms: list[int] = []

    async def open(self) -> None:
        self._worker = self._lab.start_worker(slots=BATCH, lease_s=10)
        await self._lab.ready_as(self._worker)

    async def close(self) -> None:
        self._worker.signal(signal.SIGTERM)
        assert await asyncio.to_thread(self._worker.wait) == 0, self._worker.text

    async def claims(self, count: int) -> None:
        """Cancel around the grant: the job may be waiting, just granted, or just started."""
        await self._settled(
            await asyncio.gather(*[self._cross("nap", {"seconds": 60}, self._moment(0.3)) for _ in range(count)])
        )

    async def finishes(self, count: int) -> None:
        """Cancel around the end: the job may be writing, being stored, or settled."""

        async def after_start(job_id: str) -> None:
            await self._lab.started(job_id, 1, timeout_s=60)
            await self._moment(0.5)(job_id)

        await self._settled(
            await asyncio.gather(*[self._cross("render", {"seconds": 0}, after_start) for _ in range(count)])
        )

    async def hand_backs(self, count: int) -> None:
        """Cancel around a deploy: the job may be stopping, handed back, or taken by the next worker."""
        told = asyncio.Event()

        async def after_sigterm(job_id: str) -> None:
            await told.wait()
            await self._moment(0.4)(job_id)

        crossing = [asyncio.create_task(self._cross("nap", {"seconds": 60}, after_sigterm)) for _ in range(count)]

        async def all_run() -> bool:
            return (await self._lab.ledger.counts(None))["running"] == count

        await self._lab.until(all_run, "all run", timeout_s=60)
        leaving = self._worker
        await self.open()
        leaving.signal(signal.SIGTERM)
        told.set()
        assert await asyncio.to_thread(leaving.wait) == 0, leaving.text
        await self._settled(await asyncio.gather(*crossing))

    def _moment(self, within_s: float) -> Callable[[str], Awaitable[None]]:
        wait_s = self._chance.uniform(0, within_s)

        async def wait(_job_id: str) -> None:
            await asyncio.sleep(wait_s)

        return wait

    async def _cross(
        self, kind: str, params: dict[str, float], moment: Callable[[str], Awaitable[None]]
    ) -> tuple[str, CancelReply]:
        params = {**params, "salt": self._chance.random()}
        job_id = await self._lab.submit(kind, params, subscribers=(self._lab.receiver(),))
        await moment(job_id)
        return job_id, await self._lab.cancel(job_id, who="crossing")

    async def _settled(self, crossed: list[tuple[str, CancelReply]]) -> None:
        for job_id, reply in crossed:
            row = await self._lab.job(job_id)
            assert row.state is (State.CANCELED if reply.canceled else State.FINISHED), (row, reply)
            assert reply.state is row.state
            await self._dead(job_id)
            attempts = await self._lab.attempts(job_id)
            self.ends[f"{row.state} at attempt {row.attempt}, {len(attempts)} granted"] += 1
            assert [a for a in attempts if a.outcome is Outcome.SUCCESS] == attempts * (not reply.canceled)
            assert bool((await self._lab.result(job_id)).outputs) == (not reply.canceled)
        assert self._lab.job_processes() == []

    async def _dead(self, job_id: str) -> None:
        """The ledger says soon that nothing of it lives any more; whether that is true is seen after the batch."""

        async def stopped() -> bool:
            return not (await self._lab.job(job_id)).stopping

        await self._lab.until(stopped, "it is stopped", timeout_s=10)
        at_ms = {event.what: event.at_ms for event in await self._lab.events(job_id)}
        if "stopped" in at_ms and "canceled" in at_ms:
            self.dead_after_ms.append(at_ms["stopped"] - at_ms["canceled"])


async def cross(lab: Lab, count: int, seed: int) -> str:
    """Crossings of each sort, in turn; then everything that must hold. Returns a line of numbers."""
    crossings = Crossings(lab, seed)
    await crossings.open()
    left, sorts = count, (crossings.claims, crossings.finishes, crossings.hand_backs)
    while left > 0:
        for sort in sorts:
            await sort(BATCH)
            left -= BATCH
    await lab.delivered()
    await lab.check_answers("app")
    await lab.collected()
    await lab.check(*[job_id for (job_id,) in lab.rows("SELECT job_id FROM job")])
    await crossings.close()
    dead_ms = sorted(crossings.dead_after_ms)
    assert dead_ms[-1] <= DEAD_WITHIN_MS, dead_ms
    return f"{dict(crossings.ends)}; dead after {dead_ms[len(dead_ms) // 2]} ms at p50, {dead_ms[-1]} at most"


async def run(count: int, seed: int) -> None:
    with tempfile.TemporaryDirectory(prefix="planrun-cancel-") as folder:
        lab = Lab(Path(folder))
        try:
            print(await cross(lab, count, seed), flush=True)
        finally:
            await lab.close()


def main(minutes: float | None) -> int:
    seed = int(os.environ.get("CHAOS_SEED", "0")) or random.SystemRandom().randrange(1, 1_000_000)
    print(f"CHAOS_SEED={seed}", flush=True)
    asyncio.run(run(1_000 if minutes is None else min(1_000, round(minutes * 200)), seed))
    return 0
