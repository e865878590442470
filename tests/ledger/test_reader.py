"""A short look is taken where it is asked for, and holds the event loop up neither by work nor by waiting."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from planrun.clock import SystemClock
from planrun.ledger.contract import Ledger
from planrun.ledger.sqlite.identity import Identity
from planrun.ledger.sqlite.ledger import SqliteLedger
from planrun.ledger.sqlite.reader import Reader
from planrun.ledger.sqlite.writer import SqliteTx
from planrun.ledger.tx import Tx

pytestmark = pytest.mark.anyio

LONG = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) SELECT count(*) FROM n"


@pytest.fixture
async def reader(ledger: Ledger, path: Path) -> AsyncIterator[Reader]:
    reader = Reader(path, Identity(path), SystemClock.open_system())
    yield reader
    reader.close()


def asked(text: str, threads: list[int]) -> Callable[[Tx], object]:
    def query(tx: Tx) -> object:
        assert isinstance(tx, SqliteTx)
        threads.append(threading.get_ident())
        return tx._connection.execute(text).get

    return query


async def test_a_glance_is_taken_where_it_is_asked_for(reader: Reader) -> None:
    threads: list[int] = []

    assert await reader.glance(asked("SELECT count(*) FROM job", threads)) == 0
    assert threads == [threading.get_ident()]


async def test_a_glance_that_turns_out_to_be_long_is_taken_in_a_thread(reader: Reader) -> None:
    threads: list[int] = []

    assert await reader.glance(asked(LONG, threads)) == 100_000
    assert len(set(threads)) == 2
    assert await reader.glance(asked("SELECT count(*) FROM job", threads)) == 0  # and the next one is taken here again
    assert threads[-1] == threads[0]


async def test_what_people_ask_for_stands_in_the_way_of_no_other_look(ledger: Ledger) -> None:
    """The line is looked at in the one thread, and to count or to check everything takes long."""
    assert isinstance(ledger, SqliteLedger)
    done = threading.Event()
    other = ledger._reader._thread.submit(done.wait, 10)
    assert (await ledger.violations(), await ledger.owed(), await ledger.ended(0)) == ([], None, {})

    assert not other.done()
    done.set()


async def test_a_glance_waits_for_no_lock_itself(reader: Reader) -> None:
    """While the log is being recovered nobody reads; whoever runs in this loop goes on."""
    assert reader._quick.pragma("busy_timeout") == 0
    assert reader._connection.pragma("busy_timeout") > 0
