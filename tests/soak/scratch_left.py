"""Worker, job or both are killed in the middle of renders: scratch and staging get empty while the worker goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from contextlib import suppress
from pathlib import Path

from tests.lab import STARTED, Lab, WorkerProcess

ROUNDS = 30
KILLED = ("worker", "job", "both")
SIZE = {"bytes": 3_000_000, "seconds": 1.0}


async def rounds(lab: Lab, *, count: int) -> None:
    """Fails if anything is left of the attempts that were killed.

    Raises:
        AssertionError: Says what is left.
    """
    worker = _start(lab)
    jobs = []
    for turn in range(count):
        victim = KILLED[turn % len(KILLED)]
        job_id = await lab.submit("render", SIZE)
        jobs.append(job_id)
        await lab.started(job_id, 1)
        if victim != "worker":
            with suppress(ProcessLookupError):
                os.kill(_pid_of(lab, job_id), signal.SIGKILL)
        if victim != "job":
            worker.kill()
            worker = _start(lab)
    running = await lab.submit("nap", {"seconds": 3600})
    rows = await lab.ended(*jobs, timeout_s=120)
    assert {row.state for row in rows} == {"finished"}
    await lab.started(running, 1)

    async def only_winners_left() -> bool:
        winners = {output.key for job_id in jobs for output in (await lab.result(job_id)).outputs}
        return set(lab.stored()) == winners and len(lab.scratch_left()) == 1

    await lab.until(only_winners_left, "nothing is left of killed attempts", timeout_s=60)
    await lab.check(*jobs)


def _start(lab: Lab) -> WorkerProcess:
    # Not in a namespace of its own, so that the pid that the job noted means something here.
    return lab.start_worker(isolation="subreaper", slots=2, lease_s=2, gc_grace_s=0, disk_free_bytes_min=0)


def _pid_of(lab: Lab, job_id: str) -> int:
    found = [m for m in STARTED.finditer(lab.starts_file.read_text()) if m["job"] == job_id]
    return int(found[-1]["pid"])


async def _run(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder))
        try:
            await rounds(lab, count=count)
        finally:
            await lab.close()


def main(minutes: float | None) -> int:
    count = ROUNDS if minutes is None else max(3, min(ROUNDS, int(minutes * 60 / 4)))
    asyncio.run(_run(count))
    print(f"{count} rounds, nothing left")
    return 0
