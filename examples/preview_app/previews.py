"""What the app asks of planrun: one preview per clip, whoever asks, and where it is.

The app keeps no list of its own. The key says which job belongs to a clip, the ledger says how it goes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from examples.preview_app.uploads import Clip
from planrun import AsyncClient, ResultGone
from planrun.client import Answer
from planrun.core.messages import JobRow

KIND = "preview"
_KINDLY = {
    "input-unreadable": "This file is not a video that can be read.",
    "input-no-video": "There is no picture in this file.",
    "input-truncated": "The video ends too early. The upload, or the file itself, may be incomplete.",
}
_LEFT_AFTER_S = 2.0  # an estimate from less would jump about
_LEFT_AFTER_SHARE = 0.02

View = dict[str, Any]  # what the page shows; JSON


class Previews:
    """The previews of uploaded clips."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._waiting: set[asyncio.Task[View]] = set()

    async def ask(self, clip: Clip) -> str:
        """Ask for the preview: joins the render under way, finds the finished one, or begins it.

        Returns:
            The job's id.
        """
        who = "owner" if clip.is_owners else "visitor"
        job = await self._client.submit(KIND, inputs={"upload": clip.video}, key=_key(clip), who=who)
        return job.id

    async def cancel(self, clip: Clip) -> None:
        """End the render for everyone. What has ended stays as it is."""
        job_id = await self._newest(clip)
        if job_id is not None:
            await self._client.cancel(job_id, who="owner", why="canceled on the page")

    async def now(self, clip: Clip) -> View:
        """Where the preview is. It is asked for if nobody has done so before."""
        async with aclosing(self.follow(clip)) as views:
            return await anext(views)

    async def follow(self, clip: Clip) -> AsyncGenerator[View]:
        """Where the preview is, now and whenever that changes, up to its end."""
        job_id = await self._newest(clip) or await self.ask(clip)
        rows: asyncio.Queue[JobRow | None] = asyncio.Queue()
        waiting = asyncio.create_task(self._wait(job_id, rows))
        waiting.add_done_callback(lambda _: rows.put_nowait(None))
        self._waiting.add(waiting)
        pace, said = Pace(), None
        try:
            while (row := await rows.get()) is not None:
                view = await self._under_way(row, pace)
                if view != said:
                    said = view
                    yield view
            if not waiting.cancelled():
                yield waiting.result()
        finally:
            self._waiting.discard(waiting)
            waiting.cancel()

    def stop(self) -> None:
        """Let go of everybody who follows: they ask again once there is a server again."""
        for waiting in self._waiting:
            waiting.cancel()

    async def finished(self, clip: Clip) -> Answer | None:
        """The answer, if there is a finished preview."""
        job_id = await self._newest(clip)
        if job_id is None or (await self._client.show(job_id)).state != "finished":
            return None
        return await self._client.result(job_id)

    async def _newest(self, clip: Clip) -> str | None:
        jobs = (await self._client.list(kind=KIND, key=_key(clip), limit=1)).jobs
        return jobs[0].job_id if jobs else None

    async def _wait(self, job_id: str, rows: asyncio.Queue[JobRow | None]) -> View:
        try:
            return _ended(await self._client.wait(job_id, on_change=rows.put_nowait))
        except ResultGone:
            return {"state": "gone", "words": "This preview is no longer kept.", "may_ask_again": True}

    async def _under_way(self, row: JobRow, pace: Pace) -> View:
        if row.state == "queued":
            return {"state": "queued", "words": (await self._client.why(row.job_id)).sentence, "percent": _percent(row)}
        left_s = pace.left_s(row, at_s=time.monotonic())
        return {"state": "running", "words": row.message or "starting", "percent": _percent(row), "left_s": left_s}


@dataclass(slots=True)
class Pace:
    """How fast one attempt has been while somebody watched it."""

    _attempt: int = 0
    _began: tuple[float, float] = field(default=(0.0, 0.0))

    def left_s(self, row: JobRow, *, at_s: float) -> int | None:
        """Seconds to the end if it goes on like this; None as long as that cannot be said."""
        share = row.fraction or 0.0
        if row.attempt != self._attempt:
            self._attempt, self._began = row.attempt, (at_s, share)
        took_s, done = at_s - self._began[0], share - self._began[1]
        if took_s < _LEFT_AFTER_S or done < _LEFT_AFTER_SHARE:
            return None
        return round((1 - share) * took_s / done)


def _key(clip: Clip) -> str:
    return f"{clip.shared}/preview"


def _percent(row: JobRow) -> int:
    return int(100 * (row.fraction or 0.0))


def _ended(answer: Answer) -> View:
    if answer.ok:
        return {"state": "finished", "words": "The preview is ready.", "percent": 100}
    if answer.error is None or answer.state == "canceled":
        return {"state": "canceled", "words": "The preview was canceled.", "may_ask_again": True}
    return {
        "state": "failed",
        "words": _KINDLY.get(answer.error.code, "The preview could not be made."),
        "details": answer.error.message,
        "may_ask_again": answer.reason != "permanent",  # the same clip would fail in the same way
    }
