"""C61: what was kept long enough is told apart from what never was, from what waits, and from what failed."""

# ruff: noqa: ASYNC110 -- what is stale is found out by looking, with a deadline

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from planrun.client import AsyncClient
from planrun.client.content import SubmitOptions
from planrun.core.errors import ResultGone, UnknownJob, WaitTimeout
from planrun.core.keeping import Keep
from planrun.core.life import Outcome, State
from planrun.core.messages import Handler, WorkerRow
from tests.client.stand_in import Hands, open_world

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def brief_world(url: str) -> AsyncIterator[tuple[AsyncClient, Hands]]:
    """Results of `preview` are kept for a moment; jobs for none."""
    async with open_world(url) as (client, hands):
        handler = Handler(kind="preview", version="v1", result_ttl_s=0.001)
        row = WorkerRow(incarnation="declares", name="w2", host="here", slots=1, handlers=(handler,))
        await hands.ledger.register(row)
        yield client, hands


async def until_gone(client: AsyncClient, job_id: str) -> list[str]:
    """Retention by hand; what it said has gone."""
    said: list[str] = []
    while f"result of job {job_id}" not in said:
        said += await client.collect(grace_s=0, now=True)
        await asyncio.sleep(0.001)
    return said


async def test_a_result_that_is_gone_says_so_and_its_file_and_key_are_free(url: str, tmp_path: Path) -> None:
    (tmp_path / "out.mp4").write_bytes(b"film")
    async with brief_world(url) as (client, hands):
        job = await client.submit("preview", key="k", request_id="r1")
        await hands.finish(job.id, files={"film": tmp_path / "out.mp4"})
        path = (await job.wait()).outputs["film"].path

        said = await until_gone(client, job.id)

        for ask in (client.wait, client.result):
            with pytest.raises(ResultGone, match="has ended, but its result is no longer kept; submit it again"):
                await ask("r1")
        assert (await client.show(job.id)).state is State.FINISHED
        assert not path.exists()
        assert [name for name in said if name.endswith("/film")]
        again = await client.submit("preview", key="k")
        assert (again.disposition, again.id != job.id) == ("new", True)
        with pytest.raises(WaitTimeout):
            await again.wait(timeout_s=0)


async def test_a_job_in_the_archive_is_neither_unknown_nor_running_and_says_where_its_record_is(
    url: str, tmp_path: Path
) -> None:
    async with brief_world(url) as (client, hands):
        await hands.ledger.keep(Keep(job_ttl_s=0))
        (tmp_path / "in.mov").write_bytes(b"film")
        asked: SubmitOptions = {"inputs": {"video": tmp_path / "in.mov"}, "request_id": "r1"}
        job = await client.submit("preview", **asked)
        await hands.finish(job.id, value=7)
        (tmp_path / "in.mov").unlink()
        said = await until_gone(client, job.id)

        assert f"job {job.id}, to the archive" in said
        for verb in (client.show, client.wait, client.result, client.events, client.logs, client.why, client.cancel):
            for name in ("r1", job.id):
                with pytest.raises(ResultGone, match=f"{job.id} has finished.*grep {job.id} "):
                    await verb(name)
        with pytest.raises(UnknownJob):
            await client.wait("nowhere")
        repeated = await client.submit("preview", **asked)
        assert (repeated.id, repeated.disposition) == (job.id, "repeated")
        [file] = (tmp_path / "ledger.db.archive").iterdir()
        assert json.loads(file.read_text())["result"]["value"] == 7


async def test_a_waiter_whose_job_ends_and_goes_before_it_looks_again_is_told(url: str) -> None:
    async with brief_world(url) as (client, hands):
        await hands.ledger.keep(Keep(job_ttl_s=0))
        job = await client.submit("preview")
        waiter = asyncio.create_task(client.wait(job.id))
        await asyncio.sleep(0)
        granted = await hands.take(job.id)
        await hands.settle(granted.lease, Outcome.SUCCESS)

        try:
            answer = await waiter
        except ResultGone:
            return
        assert answer.state is State.FINISHED


async def test_a_dry_run_says_what_would_go_and_nothing_goes(url: str, tmp_path: Path) -> None:
    (tmp_path / "out.mp4").write_bytes(b"film")
    async with brief_world(url) as (client, hands):
        job = await client.submit("preview")
        await hands.finish(job.id, files={"film": tmp_path / "out.mp4"})
        lost = await client.submit("preview")
        granted = await hands.take(lost.id)
        output = hands._put(granted, "out.mp4", tmp_path / "out.mp4")
        await hands.settle(granted.lease, Outcome.PERMANENT)
        would: list[str] = []
        while len(would) < 3:
            would = list(await client.collect(grace_s=0, dry_run=True))
            await asyncio.sleep(0.001)

        assert sorted(would) == sorted([f"result of job {job.id}", f"result of job {lost.id}", output.key])
        assert (await job.result()).outputs["film"].path.exists()
        assert hands.store.head(output.key) is not None


async def test_while_the_clock_is_doubted_only_now_does_it(url: str) -> None:
    async with brief_world(url) as (client, hands):
        job = await client.submit("preview")
        await hands.finish(job.id)
        while not (await hands.ledger.stale(limit=1)).results:
            await asyncio.sleep(0.001)

        assert await client.collect(grace_s=0) == []
        assert await client.collect(grace_s=0, now=True) == [f"result of job {job.id}"]
