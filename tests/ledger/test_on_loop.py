"""Commits on the event loop: one for each of its rounds, and nobody else's lock ever holds the loop up."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import pytest

from planrun.config import place_of
from planrun.ledger.sqlite.ledger import SqliteLedger
from planrun.ledger.sqlite.thread import ON_LOOP
from planrun.ledger.sqlite.turnstile import Turnstile
from planrun.wiring import open_ledger

from .plain import a_request

pytestmark = pytest.mark.anyio

LATE_S = 0.5  # for a loop that comes round every few milliseconds


@pytest.fixture
async def ledger(url: str) -> AsyncIterator[SqliteLedger]:
    opened = open_ledger(url, hands=ON_LOOP)
    assert isinstance(opened, SqliteLedger)
    yield opened
    await opened.close()


@asynccontextmanager
async def a_loop_that_goes_on() -> AsyncIterator[None]:
    """Fails if the event loop stood still meanwhile."""
    longest_s = 0.0

    async def look() -> None:
        nonlocal longest_s
        while True:
            began_s = time.monotonic()
            await asyncio.sleep(0.005)
            longest_s = max(longest_s, time.monotonic() - began_s)

    looking = asyncio.create_task(look())
    try:
        yield
        await asyncio.sleep(0.01)
    finally:
        looking.cancel()
    assert longest_s < LATE_S


async def test_what_comes_in_one_round_of_the_loop_shares_a_commit_on_its_thread(ledger: SqliteLedger) -> None:
    commits: list[threading.Thread] = []
    ledger._writer.watch(lambda _: commits.append(threading.current_thread()))

    await asyncio.gather(ledger.submit([a_request("one")]), ledger.submit([a_request("two")]))

    assert commits == [threading.current_thread()]


async def test_while_another_process_has_the_turn_the_loop_goes_on(ledger: SqliteLedger, url: str) -> None:
    other = Turnstile(place_of(url).turn)
    async with a_loop_that_goes_on():
        with other.turn():
            asked = asyncio.create_task(ledger.submit([a_request("one")]))
            await asyncio.sleep(2 * LATE_S)
            assert not asked.done()
        await asked
    other.close()


async def test_a_lock_from_outside_does_not_hold_the_loop_up(ledger: SqliteLedger, url: str) -> None:
    outside = apsw.Connection(str(Path(place_of(url).ledger)))
    outside.execute("BEGIN IMMEDIATE")
    async with a_loop_that_goes_on():
        asked = asyncio.create_task(ledger.submit([a_request("one")]))
        await asyncio.sleep(2 * LATE_S)
        assert not asked.done()
        outside.execute("COMMIT")
        await asked
    outside.close()
