"""Four processes bulk-submit while jobs run on short leases: no lease expires."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.lab import ROOT, Lab
from tests.watching import renewals_of

SUBMITTERS = 4
WORKERS = 2
SLOTS = 5
LEASE_S = 3.0
SECONDS = 60.0


@dataclass(frozen=True)
class Seen:
    submitted: int
    slowest_submit_s: float
    largest_gap_s: float
    starts: int
    losses: int
    lost_events: int


async def bulk_submit(lab: Lab, *, seconds: float) -> Seen:
    """Submit for so long; every slot of every worker runs one long job meanwhile."""
    for _ in range(WORKERS):
        lab.start_worker(lease_s=LEASE_S, slots=SLOTS)
    await lab.ready(WORKERS)
    running = [await lab.submit("nap", {"seconds": 3600}) for _ in range(WORKERS * SLOTS)]
    for job_id in running:
        await lab.started(job_id, 1)
    async with renewals_of(lab, running, lease_s=LEASE_S) as renewals:
        told = await asyncio.gather(*(_submitter(lab.url, seconds) for _ in range(SUBMITTERS)))
    rows = [await lab.job(job_id) for job_id in running]
    events = [event for job_id in running for event in await lab.events(job_id)]
    return Seen(
        submitted=sum(int(one["jobs"]) for one in told),
        slowest_submit_s=max(one["slowest_s"] for one in told),
        largest_gap_s=renewals.largest_gap_s,
        starts=len(lab.starts()),
        losses=sum(row.losses for row in rows),
        lost_events=len([event for event in events if event.what == "lost"]),
    )


async def _submitter(url: str, seconds: float) -> dict[str, float]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bulk_submitter_main", url, str(seconds), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    told: dict[str, float] = json.loads(out)
    return told


async def _run(seconds: float) -> Seen:
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder))
        try:
            return await bulk_submit(lab, seconds=seconds)
        finally:
            await lab.close()


def main(minutes: float | None) -> int:
    seen = asyncio.run(_run(SECONDS if minutes is None else min(SECONDS, minutes * 60)))
    print(
        f"{seen.submitted} jobs submitted, slowest slice {seen.slowest_submit_s:.3f} s; largest renewal gap "
        f"{seen.largest_gap_s:.3f} s of {LEASE_S:g} s; {seen.losses} losses, "
        f"{seen.lost_events} lost, {seen.starts} starts"
    )
    return 0 if (seen.losses, seen.lost_events, seen.starts) == (0, 0, WORKERS * SLOTS) else 1
