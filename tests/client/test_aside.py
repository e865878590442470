"""Looks at files of which nobody knows if they ever end."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from planrun.client import AsyncClient
from planrun.client.aside import AT_ONCE_MAX, Aside
from planrun.client.content import Asked, ask
from planrun.core.errors import Invalid, LedgerUnavailable

pytestmark = pytest.mark.anyio


async def test_those_that_hang_keep_their_places_until_they_are_back() -> None:
    aside, gate = Aside(wait_s=0.5), threading.Event()
    try:
        hung = [aside.call(gate.wait) for _ in range(AT_ONCE_MAX)]
        told = await asyncio.gather(*hung, return_exceptions=True)
        assert {type(each) for each in told} == {LedgerUnavailable}
        with pytest.raises(LedgerUnavailable, match="nothing was submitted"):
            await aside.call(lambda: 7)
    finally:
        gate.set()
    assert await aside.call(lambda: 7) == 7


async def test_where_no_thread_can_be_started_no_place_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    aside = Aside(wait_s=0.5)
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        for _ in range(AT_ONCE_MAX + 1):
            with pytest.raises(LedgerUnavailable, match="start new thread"):
                await aside.call(lambda: 7)

    assert await aside.call(lambda: 7) == 7


async def test_what_is_raised_there_is_raised_here() -> None:
    def look() -> None:
        raise Invalid("no such file")

    with pytest.raises(Invalid, match="no such file"):
        await Aside().call(look)


async def test_who_serves_others_looks_at_files_in_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[threading.Thread] = []

    def look(*arguments: Any, **named: Any) -> Asked:
        looked.append(threading.current_thread())
        return ask(*arguments, **named)

    monkeypatch.setattr("planrun.client.async_client.ask", look)
    (tmp_path / "a").touch()
    async with AsyncClient(f"sqlite:///{tmp_path}/ledger.db") as client:
        client.look_aside()
        for inputs in ({"upload": str(tmp_path / "a")}, {"upload": "https://example.org/a"}, {}):
            await client.submit("preview", inputs=inputs)

    here = threading.current_thread()
    assert [thread is here for thread in looked] == [False, True, True]
