"""The same operation asked for by many, and the same request made again: one job, one answer."""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from planrun.client import AsyncClient
from planrun.core.errors import UnknownJob
from planrun.core.life import State
from tests.lab import Lab
from tests.soak.same_key import after_an_end_without_result, one_for_all, retried

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def test_50_processes_that_submit_one_key_at_once_get_one_job_and_equal_answers(lab: Lab) -> None:
    """Asked again after it finished: no run. Other content under the key: a conflict that names the job."""
    lab.start_worker()
    await lab.ready(1)

    print(await one_for_all(lab, 50))


async def test_a_key_that_failed_or_was_canceled_leads_to_one_new_job(lab: Lab) -> None:
    lab.start_worker()
    await lab.ready(1)

    await after_an_end_without_result(lab, 4)


async def test_requests_retried_by_submitters_that_died_before_the_reply_make_no_second_job(lab: Lab) -> None:
    """C59: 100 logical requests from 8 threads, with and without a key; each submitter is killed after some commits."""
    print(await retried(lab, logical=100, lines=8, chance=random.Random(8)))


async def test_c61_every_end_and_every_absence_has_an_answer_of_its_own(lab: Lab) -> None:
    """Waiting, running, finished, failed, exhausted, canceled, unknown: never one for the other, and for good."""
    lab.start_worker(slots=2)
    await lab.ready(1)
    running = await lab.submit("nap", {"seconds": 60})
    waiting = await lab.submit("nap", {"seconds": 0}, delay_s=60)
    finished = await lab.submit("nap", {"seconds": 0})
    failed = await lab.submit("hurl", {"error": "permanent"})
    exhausted = await lab.submit("hurl", {"error": "transient"}, max_attempts=1)
    canceled = await lab.submit("nap", {"seconds": 60}, delay_s=60)
    await lab.started(running, 1)
    await lab.cancel(canceled)
    await lab.ended(finished, failed, exhausted, canceled)
    rows = [await lab.job(job_id) for job_id in (waiting, running, finished, failed, exhausted, canceled)]

    assert [(row.state, row.reason) for row in rows] == [
        (State.QUEUED, None),
        (State.RUNNING, None),
        (State.FINISHED, None),
        (State.FAILED, "permanent"),
        (State.FAILED, "exhausted"),
        (State.CANCELED, None),
    ]
    assert [await lab.ledger.result(job_id) is None for job_id in (waiting, running)] == [True, True]
    async with AsyncClient(lab.url) as client:
        asked_at = time.monotonic()
        with pytest.raises(UnknownJob):
            await client.wait("no-such-job")
        assert time.monotonic() - asked_at < 1
        waits = [client.wait(job_id, timeout_s=20) for job_id in (finished, failed, exhausted, canceled) * 2]
        answers = await asyncio.gather(*waits)
    assert answers[:4] == answers[4:]
    assert [(answer.state, answer.reason) for answer in answers[:4]] == [(row.state, row.reason) for row in rows[2:]]
