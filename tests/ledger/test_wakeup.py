"""Being woken: by the system where it tells of touched files, by looking where it does not, and never too seldom."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from planrun.ledger.sqlite import wakeup
from planrun.ledger.sqlite.wakeup import Wakeup

pytestmark = pytest.mark.anyio


def open_wakeup(folder: Path) -> Wakeup:
    return Wakeup(folder / "wake", folder / "wakes")


async def woken_by(waker: Wakeup, touch: Callable[[], object], *, about: str | None, within_s: float) -> bool:
    """Does this touch end a wait that has begun?"""
    begun = asyncio.Event()

    async def wait() -> None:
        await waker.changed(timeout_s=0, about=about)  # the first call of a task returns at once
        begun.set()
        await waker.changed(timeout_s=60, about=about)

    waiting = asyncio.create_task(wait())
    await begun.wait()
    await asyncio.sleep(0)
    touch()
    done, _ = await asyncio.wait([waiting], timeout=within_s)
    waiting.cancel()
    return bool(done)


@pytest.fixture(params=["told by the system", "looking"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "looking":
        system = wakeup._open_inotify()[0]
        monkeypatch.setattr(wakeup, "_open_inotify", lambda: (system, -1))
        monkeypatch.setattr(wakeup, "_POLL_S", 0.02)
    return str(request.param)


async def test_who_waits_for_one_name_is_woken_by_that_name_and_by_who_cannot_tell(tmp_path: Path, kind: str) -> None:
    mine, others = open_wakeup(tmp_path), open_wakeup(tmp_path)
    try:
        assert not await woken_by(mine, lambda: others.touch(["other"]), about="job", within_s=0.3)
        assert await woken_by(mine, lambda: others.touch(["other", "job"]), about="job", within_s=10)
        assert await woken_by(mine, lambda: others.touch(None), about="job", within_s=10)
        assert await woken_by(mine, lambda: others.touch([]), about=None, within_s=10)
    finally:
        mine.close()
        others.close()


async def test_whoever_cannot_have_a_file_of_its_own_is_woken_by_every_commit(tmp_path: Path) -> None:
    (tmp_path / "wakes").write_text("in the way")
    waker = open_wakeup(tmp_path)
    try:
        assert await woken_by(waker, lambda: waker.touch(["other"]), about="job", within_s=10)
    finally:
        waker.close()


async def test_nobody_makes_a_file_for_a_job_that_nobody_waits_for(tmp_path: Path) -> None:
    waker = open_wakeup(tmp_path)
    waker.touch(["a", "b"])
    made = (tmp_path / "wakes").exists()
    await waker.changed(timeout_s=0, about="a")
    waker.close()

    assert not made
    assert len(list((tmp_path / "wakes").iterdir())) == 1


async def test_a_burst_of_commits_is_one_wake(tmp_path: Path) -> None:
    waker = open_wakeup(tmp_path)
    wakes = 0
    try:
        await waker.changed(timeout_s=0)
        for _ in range(200):
            waker.touch([])
        until = time.monotonic() + 0.3
        while time.monotonic() < until:
            before = time.monotonic()
            await waker.changed(timeout_s=0.1)
            wakes += time.monotonic() - before < 0.09
    finally:
        waker.close()

    assert wakes <= 3
