"""Retry: a new job with what the old one asked for; the old one stays as it ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from planrun.core.errors import Invalid, UnknownJob
from planrun.core.life import State
from planrun.core.messages import Failure
from tests.client.stand_in import Lossy, open_world, over

pytestmark = pytest.mark.anyio

SAME = ("namespace", "kind", "version", "key", "inputs", "params", "needs", "priority", "max_attempts")


async def test_a_failed_job_is_retried_as_a_new_one_with_everything_it_asked_for(url: str, tmp_path: Path) -> None:
    film = tmp_path / "film.mov"
    film.write_bytes(b"film")
    async with open_world(url) as (client, hands):
        old = await client.submit(
            "preview", inputs={"film": film}, params={"n": 1}, key="k", priority=3, max_attempts=2
        )
        await hands.fail(old.id, Failure(message="bad"))
        before = await old.show()

        new = await client.retry(old.id, who="ann", why="again")

        row = await new.show()
        assert (new.id != old.id, new.disposition, row.retry_of) == (True, "new", old.id)
        assert [getattr(row, name) for name in SAME] == [getattr(before, name) for name in SAME]
        assert (row.state, row.failures) == (State.QUEUED, 0)
        assert await old.show() == before


@pytest.mark.parametrize("state", ["queued", "running", "finished"])
async def test_only_failed_or_canceled_jobs_are_retried(url: str, state: str) -> None:
    async with open_world(url) as (client, hands):
        job = await client.submit("preview")
        if state == "running":
            await hands.take(job.id)
        elif state == "finished":
            await hands.finish(job.id)

        with pytest.raises(Invalid, match=f"is {state}"):
            await client.retry(job.id)
        assert sum((await client.counts()).values()) == 1


async def test_a_job_that_is_not_there_and_an_input_that_is_gone_are_named(url: str, tmp_path: Path) -> None:
    film = tmp_path / "film.mov"
    film.write_bytes(b"film")
    async with open_world(url) as (client, _):
        job = await client.submit("preview", inputs={"film": film})
        await job.cancel()
        film.unlink()

        with pytest.raises(UnknownJob):
            await client.retry("nowhere")
        with pytest.raises(Invalid, match=r"film\.mov: there is no such file"):
            await client.retry(job.id)


async def test_a_lost_reply_makes_no_second_retry(url: str) -> None:
    async with open_world(url) as (client, hands):
        job = await client.submit("preview")
        await job.cancel()

        await over(Lossy(hands.ledger), url).retry(job.id)

        counts = await client.counts()
        assert (sum(counts.values()), counts["queued"], counts["canceled"]) == (2, 1, 1)
