"""Another program locks the ledger for 1, 5 and 20 s while jobs run and cancels arrive: all effects are right."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from planrun.core.errors import LedgerUnavailable
from planrun.core.life import State
from tests.lab import ROOT, Lab

HOLDS_S = (1.0, 5.0, 20.0, 1.0, 5.0, 20.0)
LEASE_S = 3.0


@dataclass(frozen=True)
class Seen:
    states: Counter[str]
    refused: int
    untrue: int
    lost: int
    alive: int
    starts: int


@asynccontextmanager
async def locked(lab: Lab, holds_s: Sequence[float]) -> AsyncIterator[asyncio.subprocess.Process]:
    """Begins once the lock is held for the first time; the block may wait for the end of the process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.outside_locker_main",
        str(lab.place.ledger),
        *map(str, holds_s),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert await process.stdout.readline()
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def lock_from_outside(lab: Lab, holds_s: Sequence[float], *, jobs: int, cancels: int) -> Seen:
    """Half of the cancels are for jobs that run or wait to run, half for delayed ones."""
    for _ in range(2):
        lab.start_worker(lease_s=LEASE_S, slots=4)
    await lab.ready(2)
    short = [await lab.submit("nap", {"seconds": 0.3}, delay_s=jobs / 20 * (n % 2)) for n in range(jobs)]
    delayed = [await lab.submit("nap", delay_s=3600) for _ in range(cancels - jobs // 2)]
    asked = [*short[: jobs // 2], *delayed]
    refused = 0
    said: dict[str, bool] = {}

    async def cancel(job_id: str) -> None:
        nonlocal refused
        while job_id not in said:
            try:
                reply = await lab.cancel(job_id)
            except LedgerUnavailable:
                refused += 1
            else:
                # Asked again after an unanswered call, "canceled" is what it says of itself.
                said[job_id] = reply.state is State.CANCELED

    async with locked(lab, holds_s) as locker:
        assert locker.stdout is not None
        canceling = []
        for turn in range(len(holds_s)):  # some cancels into each of the locks
            canceling.append(asyncio.gather(*map(cancel, asked[turn :: len(holds_s)])))
            if turn < len(holds_s) - 1:
                assert await locker.stdout.readline()
        await asyncio.gather(*canceling)
        await locker.wait()
    rows = await lab.ended(*short, *asked, timeout_s=60)
    await lab.check(*short, *asked)
    by_id = {row.job_id: row for row in rows}
    return Seen(
        states=Counter(row.state.value for row in by_id.values()),
        refused=refused,
        untrue=len([job_id for job_id, canceled in said.items() if canceled != (by_id[job_id].state == "canceled")]),
        lost=sum(row.losses + row.failures for row in by_id.values()),
        alive=len([worker for worker in lab.workers if worker.process.poll() is None]),
        starts=len(lab.starts()),
    )


async def _run(holds_s: Sequence[float], cancels: int) -> Seen:
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder))
        try:
            return await lock_from_outside(lab, holds_s, jobs=100, cancels=cancels)
        finally:
            await lab.close()


def main(minutes: float | None) -> int:
    holds_s = HOLDS_S if minutes is None or minutes > 1 else HOLDS_S[:3]
    seen = asyncio.run(_run(holds_s, 1000))
    print(
        f"{dict(seen.states)}, {seen.refused} cancels had to be asked again, {seen.untrue} answers untrue; "
        f"{seen.lost} losses and failures; {seen.alive} of 2 workers alive; {seen.starts} starts"
    )
    return 0 if (seen.untrue, seen.lost, seen.alive) == (0, 0, 2) else 1
