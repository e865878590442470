"""Which copy of a ledger runs is agreed on in the store, where one of two can create an object."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from planrun.core.errors import LedgerUnavailable, LedgerUnusable, StorageError
from planrun.core.generations import Mark
from planrun.orchestrator.generations import LOOK_EVERY_MS, MARK_EVERY_MS
from planrun.storage.filesystem import FilesystemStore
from tests.contract.manual_clock import ManualClock
from tests.orchestrator.standing import copy_of, standing

pytestmark = pytest.mark.anyio


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def names(store: Path) -> list[str]:
    """What the store has of the one ledger, below its folder."""
    return sorted(key.split("/", 2)[2] for key in FilesystemStore(store).keys("") if key.startswith("ledger/"))


async def test_a_generation_is_taken_once_and_the_mark_moves_with_the_ledger(
    tmp_path: Path, clock: ManualClock
) -> None:
    ledger, store = tmp_path / "ledger.db", tmp_path / "store"
    async with standing(ledger, store, clock) as party:
        assert names(store) == ["gen/1", "high/1-0"]
        await party.they.running()
        assert await party.generations.tick(7) == 7 + MARK_EVERY_MS
        assert names(store) == ["gen/1", "high/1-1"]
        await party.they.succeed(await party.they.running())
        await party.closer.tick(0)
        assert names(store) == ["gen/1", "high/1-3"]
        await party.they.running()
        await party.generations.close()
    async with standing(ledger, store, clock):
        assert names(store) == ["gen/1", "high/1-4"]


async def test_before_an_answer_is_said_the_mark_is_past_it(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a copy from the same minute would not be known as one."""
    store = tmp_path / "store"
    async with standing(tmp_path / "ledger.db", store, clock) as party:
        await party.they.succeed(await party.they.running())
        seen: list[list[str]] = []
        put = party.store.put_if_absent

        def watched(key: str, data: bytes) -> bytes:
            if "/results/" in key:
                seen.append(names(store))
            return put(key, data)

        monkeypatch.setattr(party.store, "put_if_absent", watched)
        await party.closer.tick(0)

        assert seen == [["gen/1", "high/1-2"]]


async def test_a_generation_that_an_older_version_took_is_followed_by_one_with_seals(
    tmp_path: Path, clock: ManualClock
) -> None:
    """Else its workers could prove nothing; what they hold stays theirs."""
    ledger, store = tmp_path / "ledger.db", tmp_path / "store"
    async with standing(ledger, store, clock) as party:
        lease = await party.they.running()
        await party.generations.close()
    with closing(sqlite3.connect(ledger)) as file, file:
        file.execute("DELETE FROM meta WHERE k = 'seal_key'")

    async with standing(ledger, store, clock) as party:
        assert (await party.chronicle.history()).generation == 2
        assert not (await party.chronicle.history()).recovering
        assert (await party.they.running()).seal
        assert (await party.they.succeed(lease)).status == "won"
    async with standing(ledger, store, clock) as party:
        assert (await party.chronicle.history()).generation == 2


async def test_another_store_is_refused(tmp_path: Path, clock: ManualClock) -> None:
    ledger = tmp_path / "ledger.db"
    async with standing(ledger, tmp_path / "store", clock):
        pass

    with pytest.raises(LedgerUnusable, match=r"does not know its generation 1.*--store"):
        async with standing(ledger, tmp_path / "other", clock):
            pass
    assert not names(tmp_path / "other")


async def test_of_two_copies_of_a_ledger_that_never_had_a_store_one_takes_it(
    tmp_path: Path, clock: ManualClock
) -> None:
    store = tmp_path / "store"
    async with standing(tmp_path / "a.db", store, clock, began=False) as party:
        await party.they.running()
    copy_of(tmp_path / "a.db", tmp_path / "b.db")
    async with standing(tmp_path / "a.db", store, clock) as party:
        await party.they.succeed(await party.they.running())
        await party.closer.tick(0)

    with pytest.raises(LedgerUnusable, match="older copy"):
        async with standing(tmp_path / "b.db", store, clock):
            pass


async def test_a_backup_is_known_as_one_although_nothing_was_said_since(tmp_path: Path, clock: ManualClock) -> None:
    store = tmp_path / "store"
    async with standing(tmp_path / "a.db", store, clock) as party:
        await party.ledger.backup(str(tmp_path / "b.db"))
        await party.they.running()  # the copy would give the same token out

    with pytest.raises(LedgerUnusable, match="made by `planrun backup`"):
        async with standing(tmp_path / "b.db", store, clock):
            pass
    async with standing(tmp_path / "b.db", store, clock, recover=True) as party:
        assert (await party.chronicle.history()).generation == 2
    with pytest.raises(LedgerUnusable, match="generation 2 has taken over"):
        async with standing(tmp_path / "a.db", store, clock):
            pass


async def test_who_says_recover_gets_a_new_generation_also_where_nothing_shows_that_it_is_an_older_copy(
    tmp_path: Path, clock: ManualClock
) -> None:
    """A copy of the file from within the same minute: both would give out the same token, to two jobs."""
    ledger, copy, store = tmp_path / "a.db", tmp_path / "b.db", tmp_path / "store"
    async with standing(ledger, store, clock) as party:
        await party.they.submit()
    copy_of(ledger, copy)
    async with standing(ledger, store, clock) as party:
        first = await party.they.running()
    async with standing(copy, store, clock, recover=True) as party:
        second = await party.they.running()
        assert (await party.chronicle.history()).generation == 2

    assert second.token > first.token


async def test_proof_that_the_ledger_is_behind_is_said_once_and_asks_for_a_recovery(
    tmp_path: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A copy from within the same minute is not behind the mark; but somebody holds what it will give out."""
    ledger, copy = tmp_path / "a.db", tmp_path / "b.db"
    async with standing(ledger, tmp_path / "store", clock) as party:
        job = await party.they.submit()
    copy_of(ledger, copy)
    async with standing(ledger, tmp_path / "store", clock) as party:
        lease = await party.they.grant(job.job_id)
    async with standing(copy, tmp_path / "store", clock) as party:
        assert await party.they.renew(lease) == ["lost"]

        for now_ms in range(3):
            await party.generations.tick(now_ms)

        [said] = caplog.messages
        assert "behind its workers" in said
        assert "--recover" in said
    with pytest.raises(LedgerUnusable, match="behind its workers"):
        async with standing(copy, tmp_path / "store", clock):
            pass
    async with standing(copy, tmp_path / "store", clock, recover=True) as party:
        assert await party.they.grant(job.job_id)


async def test_a_generation_that_somebody_takes_meanwhile_is_not_ours(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two copies are recovered at once: one creates the object first, the other goes on to the next number."""
    store = FilesystemStore(tmp_path / "store")
    put = store.put_if_absent

    def late(key: str, data: bytes) -> bytes:
        if key.endswith("/gen/1"):
            put(key, b'{"owner": "rival", "at_ms": 1}')
        return put(key, data)

    monkeypatch.setattr(store, "put_if_absent", late)
    async with standing(tmp_path / "a.db", store, clock) as party:
        assert (await party.chronicle.history()).generation == 2


class Watched(FilesystemStore):
    """Counts how often the store is looked at.

    Attributes:
        gate: Closed: a look takes until it is opened.
        is_away: It says nothing.
    """

    looks = 0
    is_away = False

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.gate = threading.Event()
        self.gate.set()

    def keys(self, prefix: str) -> Iterator[str]:
        self.looks += 1
        assert self.gate.wait(30)
        if self.is_away:
            raise StorageError("away")
        return super().keys(prefix)


async def test_however_many_say_a_number_the_store_is_looked_at_for_all(tmp_path: Path, clock: ManualClock) -> None:
    """One that has come while a look went on is served by the next one, which sees all that was there before it."""
    store = Watched(tmp_path / "store")
    async with standing(tmp_path / "ledger.db", store, clock) as party:
        store.looks = 0
        await asyncio.gather(*(party.generations.hear(7 + n % 3) for n in range(50)))
        assert store.looks <= 2

        store.is_away, store.looks = True, 0
        heard = await asyncio.gather(*(party.generations.hear(7) for _ in range(50)), return_exceptions=True)
        assert {type(each) for each in heard} == {LedgerUnavailable}
        assert store.looks <= 2


async def test_whoever_says_numbers_again_and_again_has_to_wait(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock.advance(seconds)

    async with standing(tmp_path / "ledger.db", tmp_path / "store", clock) as party:
        monkeypatch.setattr(clock, "sleep", sleep)
        await party.generations.hear(7)
        clock.advance(1)
        await party.generations.hear(8)

    assert slept == [LOOK_EVERY_MS / 1000 - 1]


async def test_what_somebody_says_holds_no_answer_back(tmp_path: Path, clock: ManualClock) -> None:
    store = Watched(tmp_path / "store")
    async with standing(tmp_path / "ledger.db", store, clock) as party:
        store.gate.clear()
        heard = asyncio.create_task(party.generations.hear(7))
        try:
            await asyncio.sleep(0)
            await asyncio.wait_for(party.generations.reach(Mark(generation=1, n=1000)), 10)
        finally:
            store.gate.set()
        await heard
