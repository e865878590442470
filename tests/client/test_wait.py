"""Wait: one answer for everyone, in bounded time, with or without a worker."""

from __future__ import annotations

import asyncio
import fcntl
import time
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest

from planrun.client import AsyncClient
from planrun.config import place_of
from planrun.core.errors import Invalid, PlanrunError, ResultGone, StorageError, UnknownJob, WaitTimeout
from planrun.core.life import Outcome, Reason, State
from planrun.core.messages import Failure
from tests.client.stand_in import open_world, over

pytestmark = pytest.mark.anyio


class Forgetful:
    """A ledger that no longer keeps results."""

    def __init__(self, ledger: Any) -> None:
        self._ledger = ledger

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._ledger, verb)

    async def result(self, job_id: str) -> None:
        return None


async def test_the_answer_of_a_finished_job_has_files_that_can_be_read(url: str, tmp_path: Path) -> None:
    (tmp_path / "out.mp4").write_bytes(b"film")
    async with open_world(url) as (client, hands):
        job = await client.submit("preview")
        await hands.finish(job.id, value={"frames": 9}, files={"preview": tmp_path / "out.mp4"})
        answer = await job.wait()

        assert (answer.ok, answer.state, answer.reason, answer.error) == (True, State.FINISHED, None, None)
        assert (answer.job_id, answer.attempt, answer.value) == (job.id, 1, {"frames": 9})
        assert answer.outputs["preview"].path.read_bytes() == b"film"
        assert answer.outputs["preview"].bytes == 4
        with pytest.raises(FrozenInstanceError):
            answer.value = 1  # type: ignore[misc]


async def test_an_output_that_is_not_on_this_box_says_so(url: str, tmp_path: Path) -> None:
    (tmp_path / "out.mp4").write_bytes(b"film")
    async with open_world(url) as (client, hands):
        job = await client.submit("preview")
        await hands.finish(job.id, files={"preview": tmp_path / "out.mp4"})
        hands.store.delete((await job.wait()).outputs["preview"].key)

        with pytest.raises(StorageError, match="no longer kept"):
            _ = (await job.wait()).outputs["preview"].path


async def test_the_answer_of_a_failed_job_says_why(url: str) -> None:
    async with open_world(url) as (client, hands):
        job = await client.submit("preview")
        await hands.fail(job.id, Failure(message="no such filter", code="ffmpeg-bad-filter", tail="last line"))
        answer = await job.wait()

        assert (answer.ok, answer.state, answer.reason) == (False, State.FAILED, Reason.PERMANENT)
        assert answer.error == Failure(message="no such filter", code="ffmpeg-bad-filter", tail="last line")


async def test_the_answer_of_a_canceled_job_is_canceled(url: str) -> None:
    async with open_world(url) as (client, _):
        job = await client.submit("preview", request_id="r1")
        first = await client.cancel("r1", why="wrong file")
        second = await job.cancel()
        answer = await client.wait("r1")

        assert (first.canceled, second.canceled, answer.state) == (True, False, State.CANCELED)


async def test_c61_an_unknown_id_is_refused_at_once_by_every_verb(url: str) -> None:
    async with open_world(url) as (client, _):
        for verb in (client.wait, client.show, client.result, client.events, client.attempts, client.logs, client.job):
            with pytest.raises(UnknownJob, match="nowhere"):
                await verb("nowhere")
        with pytest.raises(UnknownJob):
            await client.cancel("nowhere")


async def test_c61_a_removed_result_is_neither_unknown_nor_open(url: str) -> None:
    async with open_world(url) as (client, hands):
        job = await client.submit("preview")
        await hands.finish(job.id)
        later = over(Forgetful(hands.ledger), url)

        with pytest.raises(ResultGone, match=job.id):
            await later.wait(job.id)


async def test_the_wait_ends_at_its_timeout_and_the_job_goes_on(url: str) -> None:
    async with open_world(url) as (client, _):
        job = await client.submit("preview")
        with pytest.raises(WaitTimeout, match="goes on"):
            await job.wait(timeout_s=0.2)
        for wrong in (float("nan"), float("inf"), -1):
            with pytest.raises(Invalid, match="timeout_s"):
                await job.wait(timeout_s=wrong)
        with pytest.raises(WaitTimeout):
            await job.result()

        assert (await job.show()).state is State.QUEUED


async def test_c61_fifty_waiters_get_one_answer_soon_after_the_end(url: str) -> None:
    async with open_world(url) as (client, hands):
        job = await client.submit("preview")
        waiting = [asyncio.create_task(job.wait(timeout_s=30)) for _ in range(50)]
        granted = await hands.take(job.id)
        await hands.settle(granted.lease, Outcome.SUCCESS, value=1)
        ended = time.monotonic()
        answers = await asyncio.gather(*waiting)

        assert len({repr(answer) for answer in answers}) == 1
        assert time.monotonic() - ended < 1.5


async def test_c64_a_deadline_ends_the_job_although_no_worker_lives(url: str) -> None:
    async with AsyncClient(url) as client:
        job = await client.submit("preview", deadline_s=0.2)
        answer = await job.wait(timeout_s=30)

        assert (answer.state, answer.reason) == (State.FAILED, Reason.DEADLINE)


async def test_c64_a_waiter_sees_the_next_attempt_when_the_only_worker_is_gone(url: str) -> None:
    async with open_world(url) as (client, hands):
        job = await client.submit("preview")
        await hands.take(job.id, lease_ms=300)
        async for seen in job.stream(timeout_s=30):
            if seen.job.attempt == 2:
                break

        assert (seen.job.state, seen.job.losses, seen.answer) == (State.QUEUED, 1, None)


async def test_a_locked_ledger_does_not_hold_a_waiter_beyond_its_timeout(url: str) -> None:
    async with AsyncClient(url) as client:
        job = await client.submit("preview", deadline_s=0.1)
        with place_of(url).turn.open("r+b") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)  # a process frozen inside its transaction
            started = time.monotonic()
            with pytest.raises(WaitTimeout):
                await job.wait(timeout_s=3)

        assert time.monotonic() - started < 4.5
        assert (await job.wait(timeout_s=30)).reason is Reason.DEADLINE


async def test_the_history_attempts_and_log_of_a_job_can_be_read(url: str) -> None:
    async with open_world(url) as (client, hands):
        job = await client.submit("preview", who="ann")
        await hands.finish(job.id)
        log = place_of(url).log_of(job.id, 1)
        log.parent.mkdir(parents=True)
        log.write_bytes(b"encoding\n\xff\n")

        assert "submitted" in [event.what for event in await job.events()]
        assert [attempt.outcome for attempt in await job.attempts()] == [Outcome.SUCCESS]
        assert await job.logs() == "encoding\n\N{REPLACEMENT CHARACTER}\n"
        with pytest.raises(Invalid, match="no attempt 2"):
            await job.logs(attempt=2)


async def test_pages_of_a_list_follow_each_other_without_gap_or_repeat(url: str) -> None:
    async with open_world(url) as (client, _):
        jobs = [await client.submit("preview") for _ in range(5)]
        await jobs[0].cancel()
        seen, before = [], None
        while True:
            page = await client.list(kind="preview", limit=2, before=before)
            seen += [row.job_id for row in page.jobs]
            before = page.before
            if before is None:
                break

        assert seen == [job.id for job in reversed(jobs)]
        assert [row.job_id for row in (await client.list(state="canceled")).jobs] == [jobs[0].id]
        with pytest.raises(Invalid, match="queued"):
            await client.list(state="paused")


async def test_a_client_that_is_not_open_says_so(url: str) -> None:
    with pytest.raises(PlanrunError, match="not open"):
        await AsyncClient(url).submit("preview")
