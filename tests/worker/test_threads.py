"""The threads of a worker, whatever it works on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from planrun import embed
from planrun.embed import Worker
from planrun.service import Returns

SLOTS = 8
HANGING = 12 * SLOTS


class Hung:
    """Every slot has left some threads to a store that does not answer."""

    returns = Returns()

    async def serve(self) -> int:
        answer, loop = threading.Event(), asyncio.get_running_loop()
        hanging = [loop.run_in_executor(None, answer.wait) for _ in range(HANGING)]
        try:
            async with asyncio.timeout(10):
                return await asyncio.to_thread(lambda: 70)
        finally:
            answer.set()
            await asyncio.gather(*hanging)


def test_a_store_that_hangs_leaves_threads_to_all_else(monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def opened(*_: object) -> AsyncIterator[Hung]:
        yield Hung()

    monkeypatch.setattr(embed, "open_worker", opened)

    assert Worker("sqlite:///never-opened.db", jobs=["media.jobs"], slots=SLOTS).run() == 70
