"""A worker inside a program: what its process is like, before it works and after it has."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from planrun import embed
from planrun.config import place_of
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


def test_who_stops_a_worker_that_has_ended_hears_nothing_of_it(tmp_path: Path) -> None:
    worker, codes = Worker(f"sqlite:///{tmp_path}/ledger.db", jobs=["tests.kit_jobs"]), []
    worker.stop()
    running = threading.Thread(target=lambda: codes.append(worker.run()))
    running.start()
    running.join(60)
    assert codes == [0]

    worker.stop()


def test_who_never_became_a_worker_leaves_no_lock_file(tmp_path: Path) -> None:
    """A unit that cannot start is started again every few seconds."""
    url = f"sqlite:///{tmp_path}/ledger.db"
    place = place_of(url)
    place.scratch.mkdir()
    (place.scratch / ".reserved").touch()

    with pytest.raises(FileExistsError):
        Worker(url, jobs=["tests.kit_jobs"]).run()

    assert list(place.workers.iterdir()) == []
