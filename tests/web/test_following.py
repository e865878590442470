"""Waiting over HTTP: long-polls and streams."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from planrun.client.waiting import PROGRESS_EVERY_S
from planrun.core.messages import Beat, RenewRequest
from planrun.web.app import build_app
from tests.client.test_wait import Forgetful
from tests.web.stage import Stage, events_of, open_stage, refused

pytestmark = pytest.mark.anyio


async def renew(stage: Stage, job: str, fraction: float) -> None:
    row = await stage.client.show(job)
    assert row.token is not None
    [lease] = await stage.hands.ledger.held(stage.hands.incarnation)
    beat = Beat(lease=lease, fraction=fraction, message=f"{fraction:.0%}")
    await stage.hands.ledger.renew(RenewRequest(incarnation=stage.hands.incarnation, beats=(beat,), lease_ms=60_000))


async def settled(task: asyncio.Task[Any], *, for_s: float = 0.2) -> None:
    """Let a task get to where it waits."""
    await asyncio.wait([task], timeout=for_s)
    assert not task.done()


async def test_a_long_poll_ends_with_the_answer_or_says_that_the_job_goes_on(url: str) -> None:
    async with open_stage(url) as stage:
        job = await stage.submit()
        early = await stage.http.get(f"/v1/jobs/{job}/wait?timeout_s=0.05")
        waiting = asyncio.create_task(stage.http.get(f"/v1/jobs/{job}/wait?timeout_s=60"))
        await settled(waiting)
        await stage.hands.finish(job, value=7)
        answer = await asyncio.wait_for(waiting, 10)

        assert (early.status_code, early.json()["state"]) == (202, "queued")
        assert (answer.status_code, answer.json()["value"]) == (200, 7)
        for bad in ("-1", "nan", "601", "soon"):
            assert refused(await stage.http.get(f"/v1/jobs/{job}/wait?timeout_s={bad}")) == (422, "invalid")


async def test_a_result_that_is_no_longer_kept_is_gone_on_every_route(url: str) -> None:
    async with open_stage(url) as stage:
        job = await stage.submit()
        await stage.hands.finish(job)
        stage.client._opened = (Forgetful(stage.hands.ledger), stage.hands.store)
        name, last_id, problem = events_of((await stage.http.get(f"/v1/jobs/{job}/stream")).text)[-1]

        for side in ("wait", "result", "outputs/x"):
            assert refused(await stage.http.get(f"/v1/jobs/{job}/{side}")) == (410, "result-gone")
        assert (name, last_id, problem["status"]) == ("problem", "end", 410)


async def test_a_stream_tells_history_progress_and_the_end(url: str) -> None:
    async with open_stage(url) as stage:
        job = await stage.submit()
        reading = asyncio.create_task(stage.http.get(f"/v1/jobs/{job}/stream"))
        await stage.hands.take(job)
        for fraction in (0.25, 0.5):
            await renew(stage, job, fraction)
            await settled(reading, for_s=PROGRESS_EVERY_S + 0.5)
        await stage.client.cancel(job, who="ann")
        stream = await asyncio.wait_for(reading, 10)
        events = events_of(stream.text)

        assert stream.headers["content-type"].startswith("text/event-stream")
        assert [data["what"] for name, _, data in events if name == "history"][0::2] == ["submitted", "canceled"]
        assert [data["fraction"] for name, _, data in events if name == "progress"][-2:] == [0.25, 0.5]
        assert (events[-1][0], events[-1][1], events[-1][2]["state"]) == ("end", "end", "canceled")


async def test_a_stream_goes_on_behind_the_last_event_that_was_read(url: str) -> None:
    async with open_stage(url) as stage:
        job = await stage.submit()
        await stage.hands.finish(job)
        path = f"/v1/jobs/{job}/stream"
        whole = events_of((await stage.http.get(path)).text)
        ids = [last_id for name, last_id, _ in whole if name == "history"]
        rest = events_of((await stage.http.get(path, headers={"Last-Event-ID": str(ids[0])})).text)
        over = await stage.http.get(path, headers={"Last-Event-ID": "end"})

        assert (len(ids), rest) == (3, whole[1:])
        assert over.status_code == 204  # a browser stops coming back
        for bad in ("x", "-1", "9" * 40, "٣"):
            reply = await stage.http.get(path, headers={b"last-event-id": bad.encode()})
            assert refused(reply) == (422, "invalid")


async def test_all_who_wait_are_let_go_when_the_server_stops(url: str) -> None:
    async with open_stage(url) as stage:
        job = await stage.submit()
        polls = [asyncio.create_task(stage.http.get(f"/v1/jobs/{job}/wait?timeout_s=600")) for _ in range(20)]
        streams = [asyncio.create_task(stage.http.get(f"/v1/jobs/{job}/stream")) for _ in range(20)]
        await settled(polls[-1])
        await settled(streams[-1])
        stage.followers.stop()
        ended = await asyncio.wait_for(asyncio.gather(*polls, *streams), 5)
        late = await stage.http.get(f"/v1/jobs/{job}/wait?timeout_s=600")

        assert {refused(reply) for reply in (*ended[:20], late)} == {(503, "stopping")}
        assert {name for reply in ended[20:] for name, _, _ in events_of(reply.text)} == {"history", "progress"}


async def test_a_long_poll_ends_when_its_caller_has_left(url: str) -> None:
    async with open_stage(url) as stage:
        job = await stage.submit()
        heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        heard.put_nowait({"type": "http.request", "body": b"", "more_body": False})
        sent: asyncio.Queue[Any] = asyncio.Queue()
        scope = {
            "type": "http",
            "method": "GET",
            "path": f"/v1/jobs/{job}/wait",
            "query_string": b"timeout_s=600",
            "headers": [(b"host", b"localhost")],
        }
        poll = asyncio.create_task(build_app(stage.client)(scope, heard.get, sent.put))
        await settled(poll)
        heard.put_nowait({"type": "http.disconnect"})
        await asyncio.wait_for(poll, 10)


async def test_the_head_of_a_stream_is_read_at_once(url: str) -> None:
    async with open_stage(url) as stage:
        job = await stage.submit()
        reply = await asyncio.wait_for(stage.http.head(f"/v1/jobs/{job}/stream"), 10)

        assert (reply.status_code, reply.content) == (200, b"")


@pytest.mark.serial
async def test_a_hundred_who_wait_for_jobs_while_the_ledger_is_busy_cost_little(url: str, tmp_path: Path) -> None:
    """Each would look after every commit. They share one watch, and look less often the more they are."""
    async with open_stage(url) as stage:
        waited = [await stage.submit() for _ in range(100)]
        looks = 0
        look = stage.hands.ledger.job

        async def counted(namespace: str | None, job_id: str) -> object:
            nonlocal looks
            looks += 1
            return await look(namespace, job_id)

        polls = [asyncio.create_task(stage.http.get(f"/v1/jobs/{job}/wait?timeout_s=600")) for job in waited]
        await settled(polls[-1])
        stage.hands.ledger.job = counted  # type: ignore[method-assign, assignment]
        began, cpu = time.monotonic(), time.process_time()
        while time.monotonic() < began + 3:
            await stage.client.submit("preview")
        busy_s = time.monotonic() - began
        looks_busy, looks = looks, 0
        cpu = time.process_time()
        await asyncio.wait(polls, timeout=4)
        idle_share = (time.process_time() - cpu) / 4
        stage.followers.stop()
        await asyncio.gather(*polls)

        assert looks_busy < 1200 * busy_s
        assert looks < 400
        assert idle_share < 0.05
