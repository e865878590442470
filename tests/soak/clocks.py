"""The wall clock of workers jumps by an hour and a day, forth and back: no lease and no wait changes."""

from __future__ import annotations

import asyncio
import tempfile
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tests.lab import Lab
from tests.stepped_clock import SteppedClock

HOUR, DAY = 3600, 86_400
STEPS = (HOUR, -HOUR, DAY, -2 * DAY, 0)
LEASE_S = 2.0
LATE_S = 1.5


@dataclass(frozen=True)
class Seen:
    """Attributes:
    starts: Of the jobs that ran all the time: one each if no lease was taken.
    waits_s: Between the starts of a job that fails twice.
    delay_s: From submit to start of a delayed job.
    takeover_s: From the kill of a worker to the second start of its job.
    offsets_s: How far off the wall clock was that the workers wrote into the history.
    """

    starts: int
    waits_s: list[float]
    delay_s: float
    takeover_s: float
    offsets_s: set[int]
    lost: int


async def jumps(lab: Lab, *, delay_s: float, each_s: float, long_jobs: int = 4) -> Seen:
    """Step the clock every so often, until the delayed and the failing job have run; then kill a worker."""
    clock = SteppedClock.new(lab.folder / "clock")
    first = lab.start_worker(lease_s=LEASE_S, slots=long_jobs, environment=clock.environment, proof_of_death=False)
    await lab.ready(1)
    running = [await lab.submit("nap", {"seconds": 3600}) for _ in range(long_jobs)]
    for job_id in running:
        await lab.started(job_id, 1)
    lab.start_worker(lease_s=LEASE_S, slots=long_jobs, environment=clock.environment, proof_of_death=False)
    await lab.ready(2)

    submitted_at = time.clock_gettime(time.CLOCK_BOOTTIME)
    delayed = await lab.submit("nap", {"seconds": 0}, delay_s=delay_s)
    failing = await lab.submit("hurl", {"error": "transient", "on_attempts": 2})
    stepping = asyncio.create_task(_step(clock, each_s))
    await lab.ended(delayed, failing, timeout_s=delay_s + 60)
    events = [event for job_id in running for event in await lab.events(job_id)]
    lost = sum(event.what == "lost" for event in events)
    starts = sum(len(lab.starts(job_id)) for job_id in running)

    killed_at = first.kill()
    second = await lab.started(running[0], 2)
    stepping.cancel()
    tries = [start.at for start in lab.starts(failing)]
    return Seen(
        starts=starts,
        waits_s=[later - earlier for earlier, later in pairwise(tries)],
        delay_s=lab.starts(delayed)[0].at - submitted_at,
        takeover_s=second.at - killed_at,
        offsets_s=await _offsets(lab, failing),
        lost=lost,
    )


async def _step(clock: SteppedClock, each_s: float) -> None:
    while True:
        for seconds in STEPS:
            clock.set(seconds)
            await asyncio.sleep(each_s)


async def _offsets(lab: Lab, job_id: str) -> set[int]:
    """How far off the workers' wall clock was at each of their entries, in whole hours, as seconds."""
    now_ms = time.time() * 1000
    return {round((event.at_ms - now_ms) / 1000 / HOUR) * HOUR for event in await lab.events(job_id)}


async def _run(delay_s: float) -> Seen:
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder))
        try:
            return await jumps(lab, delay_s=delay_s, each_s=1.7)
        finally:
            await lab.close()


def on_time(seen: Seen, *, delay_s: float) -> bool:
    """Every wait as long as it has to be, give or take what a busy machine costs."""
    wanted = [*zip((2, 4), seen.waits_s, strict=True), (delay_s, seen.delay_s)]
    return all(want <= got < want + LATE_S for want, got in wanted) and seen.takeover_s < LEASE_S + LATE_S


def main(minutes: float | None) -> int:
    delay_s = 90.0 if minutes is None else max(5.0, minutes * 60 - 20)
    seen = asyncio.run(_run(delay_s))
    waits = ", ".join(f"{wait_s:.2f}" for wait_s in seen.waits_s)
    print(
        f"{seen.starts} starts of 4 jobs, {seen.lost} lost; waits {waits} s; a delay of {delay_s:g} s took "
        f"{seen.delay_s:.2f} s; taken over {seen.takeover_s:.2f} s after a kill, lease {LEASE_S:g} s"
    )
    return 0 if on_time(seen, delay_s=delay_s) and (seen.starts, seen.lost) == (4, 0) else 1
