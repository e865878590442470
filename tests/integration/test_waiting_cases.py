"""Whoever waits gets an answer in bounded time, whatever becomes of the workers."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

import pytest

from planrun.cli.exits import Exit
from planrun.client import AsyncClient
from planrun.core.life import Reason, State
from tests.lab import Lab, boottime

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def test_c61_twenty_open_waits_outlive_the_only_worker(lab: Lab) -> None:
    """The worker is killed and another one comes: all waits end, each with its own job's one answer."""
    worker = lab.start_worker(slots=4)
    await lab.ready(1)
    jobs = [await lab.submit("nap", {"seconds": 1}) for _ in range(5)]
    clients = [AsyncClient(lab.url) for _ in range(4)]
    for client in clients:
        await client.__aenter__()
    try:
        waiting = [asyncio.create_task(client.wait(job, timeout_s=90)) for client in clients for job in jobs]
        await lab.started(jobs[0], 1)
        worker.kill()
        lab.start_worker(slots=4)
        answers = await asyncio.gather(*waiting)
    finally:
        for client in clients:
            await client.close()

    assert [answer.job_id for answer in answers] == jobs * 4
    assert {answer.state for answer in answers} == {State.FINISHED}
    assert len({repr(answer) for answer in answers}) == len(jobs)


async def test_c64_a_wait_says_that_the_only_worker_is_gone_and_ends_at_the_deadline(lab: Lab) -> None:
    """No worker comes back: whoever waits ends the job; the message goes out as soon as anybody can send it."""
    worker = lab.start_worker(lease_s=1)
    await lab.ready(1)
    job_id = await lab.submit(
        "nap",
        {"seconds": 600},
        subscribers=(lab.receiver(),),
        deadline_at_ms=round(time.time() * 1000) + 12_000,
    )
    await lab.started(job_id, 1)
    command = [sys.executable, "-m", "planrun.cli", "wait", job_id, "--url", lab.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as waiting:  # noqa: ASYNC220
        worker.kill()
        out, err = await asyncio.to_thread(waiting.communicate, timeout=60)

    assert "waiting for a worker, attempt 2" in err
    assert (waiting.returncode, "failed (deadline)" in out) == (Exit.FAILED, True)
    row = await lab.job(job_id)
    assert (row.reason, row.undelivered) == (Reason.DEADLINE, 1)
    lab.start_worker()
    await lab.delivered()
    await lab.check_answers("app")


async def test_a_job_that_waits_for_nobody_costs_its_waiter_no_time_at_its_end(lab: Lab) -> None:
    """An answer is there soon after the end although whoever waits looks by itself only twice a minute."""
    lab.start_worker()
    await lab.ready(1)
    job_id = await lab.submit("nap", {"seconds": 1})
    async with AsyncClient(lab.url) as client:
        await client.wait(job_id, timeout_s=60)
        answered = boottime()
        row = await lab.job(job_id)

    assert row.ended_at_ms is not None
    assert answered * 1000 - (row.ended_at_ms - time.time() * 1000 + boottime() * 1000) < 2_000
