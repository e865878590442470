"""Routes that wait. A hundred who wait are woken by one watch of the ledger, and cost nothing in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.responses import Response, StreamingResponse

from planrun.client import Answer, AsyncJobHandle, Progress
from planrun.core.errors import Invalid, PlanrunError, ResultGone, WaitTimeout
from planrun.core.messages import Struct
from planrun.web.asked import CURSOR_MAX, JobQuery, StreamHeaders, WaitQuery
from planrun.web.bodies import job_answer, progress_of
from planrun.web.calls import Call
from planrun.web.problems import problem_of
from planrun.web.replies import json_text, write_json

BEAT_S = 15.0  # a comment in a silent stream: shows who has left, and keeps proxies from giving up
EVENT_STREAM = "text/event-stream"
END = "end"  # id of the last event of a stream


async def wait(call: Call, *, query: WaitQuery) -> Response:
    """Wait until the job has ended. 200: its answer; 202: it goes on, ask again."""
    job = await call.job(query.namespace)
    try:
        return write_json(job_answer(await call.while_wanted(job.wait(timeout_s=query.timeout_s))))
    except WaitTimeout:
        return write_json(await job.show(), status=202)


async def stream(call: Call, *, query: JobQuery, headers: StreamHeaders) -> Response:
    """Server-sent events: `history` for each move, `progress`, and `end` with the answer.

    A browser that lost the connection comes back by itself, and gets only the history that it missed. 204: there is
    nothing behind the `end` that it has read. `problem` says why there will be no answer here.
    """
    job = await call.job(query.namespace)
    if headers.last_event_id == END:
        return Response(status_code=204)
    story = Story(call, job, _cursor_of(headers.last_event_id))
    if call.request.method == "HEAD":
        return Response(media_type=EVENT_STREAM)  # nobody reads on until the end
    return StreamingResponse(
        story.lines(), media_type=EVENT_STREAM, headers={"cache-control": "no-store", "x-accel-buffering": "no"}
    )


class Story:
    """One job, told to one reader. A slow reader misses progress, never history."""

    def __init__(self, call: Call, job: AsyncJobHandle, after: int) -> None:
        self._call = call
        self._job = job
        self._after = after
        self._seen: Progress | None = None
        self._news = asyncio.Event()

    async def lines(self) -> AsyncIterator[str]:
        """The stream, until the job has ended, the reader has left or the server stops."""
        waiting = self._call.followers.start(self._follow())
        waiting.add_done_callback(lambda _: self._news.set())
        yield "retry: 1000\n\n"
        try:
            while not waiting.done():
                try:
                    async with asyncio.timeout(BEAT_S):
                        await self._news.wait()
                except TimeoutError:
                    yield ": still here\n\n"
                    continue
                self._news.clear()
                async for line in self._missed():
                    yield line
                seen, self._seen = self._seen, None
                if seen is not None:
                    yield _event("progress", progress_of(seen))
            if waiting.cancelled():
                return
            async for line in self._missed():
                yield line
            yield _event("end", job_answer(waiting.result()), id=END)
        except PlanrunError as error:
            yield _event("problem", problem_of(error), id=END if isinstance(error, ResultGone) else None)
        finally:
            waiting.cancel()

    async def _follow(self) -> Answer:
        async for seen in self._job.stream():
            if seen.answer is not None:
                return seen.answer
            self._seen = seen
            self._news.set()
        raise AssertionError("a stream of the client ends with the answer")

    async def _missed(self) -> AsyncIterator[str]:
        for row in await self._job.events():
            if row.id > self._after:
                self._after = row.id
                yield _event("history", row, id=str(row.id))


def _event(name: str, data: Struct, *, id: str | None = None) -> str:
    named = "" if id is None else f"id: {id}\n"
    return f"event: {name}\n{named}data: {json_text(data)}\n\n"


def _cursor_of(last_event_id: str | None) -> int:
    if last_event_id is None:
        return -1
    if not (last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) < 20):
        raise Invalid(f"Last-Event-ID {last_event_id!r:.80}: send the id of an event of this stream, or none")
    return min(int(last_event_id), CURSOR_MAX)
