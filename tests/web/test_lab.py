"""The lab over HTTP: its runs, their limits, and what its page may do."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from planrun.sim.lab.settings import Choice
from planrun.web import lab, lab_runs
from planrun.web.calls import Followers
from planrun.web.problems import Refused
from tests.web.stage import open_stage, refused

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

TOKEN = "0123456789abcdef"


async def test_a_run_is_answered_as_lanes_points_and_one_sentence_and_equal_ones_are_equal(url: str) -> None:
    async with open_stage(url) as stage:
        history = await stage.got("/v1/lab?fencing=on")
        stage.http._transport.app.state.lab_runs = lab_runs.Runs(stage.followers)  # type: ignore[attr-defined]
        by_link = await stage.got(f"/v1/lab?{history['link']}")

        assert history["sentence"].startswith("At 14 s the store refused")
        assert {point["lane"] for point in history["points"]} == {"a", "b", "ledger", "store"}
        assert by_link == history


@pytest.mark.parametrize(
    "query",
    ["lease_s=0.5", "lease_s=1e9", "lease_s=nan", "for_s=61", "seed=-1", "fault=fire", "fencing=maybe", "lease=3"],
)
async def test_what_is_out_of_bounds_is_refused_and_not_run(url: str, query: str) -> None:
    async with open_stage(url) as stage:
        assert refused(await stage.http.get(f"/v1/lab?{query}")) == (422, "invalid")
        assert refused(await stage.http.get(f"/lab?{query}")) == (422, "invalid")


async def test_a_run_takes_a_token_where_one_is_asked_for_and_the_page_takes_none(url: str) -> None:
    async with open_stage(url, token=TOKEN) as stage:
        bearer = {"authorization": f"Bearer {TOKEN}"}

        assert refused(await stage.http.get("/v1/lab")) == (401, "no-token")
        assert (await stage.http.get("/v1/lab", headers=bearer)).status_code == 200
        assert (await stage.http.get("/lab")).status_code == 200


async def test_a_run_that_takes_too_long_is_ended(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab_runs, "RUN_S_MAX", 0.01)
    async with open_stage(url) as stage:
        reply = await stage.http.get("/v1/lab")

        assert refused(reply) == (503, "lab-busy")
        assert reply.headers["retry-after"]


async def test_the_process_ends_with_the_server_and_after_one_that_failed_there_is_another(url: str) -> None:
    async with open_stage(url) as stage:
        runs = lab_runs.Runs(stage.followers)
        await runs.history(Choice().settings())
        first = runs._process
        assert first is not None
        first.kill()
        await first.wait()
        with pytest.raises((RuntimeError, ConnectionError)):
            await runs.history(Choice(seed=2).settings())
        await runs.history(Choice(seed=2).settings())
        second = runs._process
        assert second is not None and second is not first
        stage.followers.stop()

        assert await asyncio.wait_for(second.wait(), 10) != 0


async def test_runs_come_one_by_one_and_a_crowd_is_turned_away(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    running, most = 0, 0

    async def slow(self: lab_runs.Runs, told: str) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1
        return told

    monkeypatch.setattr(lab_runs.Runs, "_run", slow)
    runs = lab_runs.Runs(Followers())
    choices = [Choice(seed=seed).settings() for seed in range(lab_runs.WAITING_MAX + 3)]
    ends = await asyncio.gather(*(runs.history(one) for one in choices), return_exceptions=True)

    assert most == 1
    assert sum(isinstance(end, Refused) for end in ends) == 3


async def test_the_page_is_one_file_that_may_run_nothing_else(url: str) -> None:
    async with open_stage(url) as stage:
        page = await stage.http.get("/lab")
        policy = page.headers["content-security-policy"]

        assert "default-src 'none'" in policy and "connect-src 'self'" in policy
        assert "unsafe" not in policy
        assert not re.search(r"""(src|href)=["'](https?:)?//|@import|url\(["']?http|\son\w+=|\sstyle=""", page.text)


def test_the_page_is_part_of_the_package() -> None:
    folder = Path(lab.__file__).with_name("lab_page")

    assert {path.name for path in folder.iterdir()} >= {"page.html", "page.css", "page.js", "picture.js"}
