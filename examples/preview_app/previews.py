"""What the app asks of planrun: one preview per clip, whoever asks, and where it is.

The app keeps no list of its own. The key says which job belongs to a clip, the ledger says how it goes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from examples.preview_app.uploads import Clip
from planrun import AsyncClient, ResultGone
from planrun.client import Answer, Progress

KIND = "preview"
_KINDLY = {
    "input-unreadable": "This file is not a video that can be read.",
    "input-no-video": "There is no picture in this file.",
    "input-truncated": "The video ends too early. The upload, or the file itself, may be incomplete.",
}

View = dict[str, Any]  # what the page shows; JSON


class Previews:
    """The previews of uploaded clips."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._following: set[asyncio.Task[None]] = set()

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
        views: asyncio.Queue[View | None] = asyncio.Queue()
        following = asyncio.create_task(self._follow(job_id, views))
        following.add_done_callback(lambda _: views.put_nowait(None))
        self._following.add(following)
        try:
            while (view := await views.get()) is not None:
                yield view
            if not following.cancelled():
                following.result()
        finally:
            self._following.discard(following)
            following.cancel()

    def stop(self) -> None:
        """Let go of everybody who follows: they ask again once there is a server again."""
        for following in self._following:
            following.cancel()

    async def finished(self, clip: Clip) -> Answer | None:
        """The answer, if there is a finished preview."""
        job_id = await self._newest(clip)
        if job_id is None or (await self._client.show(job_id)).state != "finished":
            return None
        return await self._client.result(job_id)

    async def _newest(self, clip: Clip) -> str | None:
        jobs = (await self._client.list(kind=KIND, key=_key(clip), limit=1)).jobs
        return jobs[0].job_id if jobs else None

    async def _follow(self, job_id: str, views: asyncio.Queue[View | None]) -> None:
        try:
            async for seen in self._client.stream(job_id):
                views.put_nowait(await self._view(seen))
        except ResultGone:
            gone = {"state": "gone", "words": "This preview is no longer kept.", "may_ask_again": True}
            views.put_nowait(gone)

    async def _view(self, seen: Progress) -> View:
        if seen.answer is not None:
            return _ended(seen.answer)
        job, left_s = seen.job, None if seen.left_s is None else round(seen.left_s)
        words = (await self._client.why(job.job_id)).sentence if job.state == "queued" else job.message or "starting"
        return {"state": job.state, "words": words, "percent": int(100 * (job.fraction or 0.0)), "left_s": left_s}


def _key(clip: Clip) -> str:
    return f"{clip.shared}/preview"


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
