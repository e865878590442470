"""When silence of a lease's holder means something, and when it was the file that let nobody speak."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from planrun.clock import SystemClock
from planrun.ledger.sqlite import access
from planrun.ledger.sqlite.access import Access
from planrun.wiring import open_ledger


class Hand(SystemClock):
    """Boottime as a test sets it."""

    now_ms = 100_000

    def boot_ms(self) -> int:
        return type(self).now_ms


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Hand:
    monkeypatch.setattr(Hand, "now_ms", 100_000)
    return Hand("epoch", 0, 0)


def later(ms: int) -> None:
    Hand.now_ms += ms


def test_in_ordinary_traffic_silence_is_the_holders_own(clock: Hand) -> None:
    found = Access(clock)
    later(1_000)
    found.wrote(asked_ms=clock.boot_ms() - 10)

    assert found.is_settled(asked_ms=clock.boot_ms())


def test_a_turn_that_came_late_means_nothing_yet(clock: Hand) -> None:
    found = Access(clock)
    later(5_000)

    assert not found.is_settled(asked_ms=clock.boot_ms() - 5_000)


@pytest.mark.parametrize("trouble", ["failed", "delayed", "not looked"])
def test_after_trouble_holders_have_a_moment(clock: Hand, trouble: str) -> None:
    found = Access(clock)
    if trouble == "failed":
        found.failed()
    later(5_000)
    assert not found.is_settled(asked_ms=clock.boot_ms())
    found.wrote(asked_ms=clock.boot_ms() - (5_000 if trouble == "delayed" else 0))

    assert not found.is_settled(asked_ms=clock.boot_ms())
    later(access.MOMENT_MS)
    found.wrote(asked_ms=clock.boot_ms())
    assert found.is_settled(asked_ms=clock.boot_ms())


def test_a_disk_that_is_slow_for_good_keeps_no_lease_for_ever(clock: Hand) -> None:
    found = Access(clock)
    assert settled_after(found, [300] * 3)
    assert settled_after(found, [300, 5, 300, 20, 500, 300, 5])
    assert settled_after(found, [3_000] * 3)


@pytest.mark.parametrize("before", [[], [300] * 5, [300] * 5 + [5]])
def test_a_turn_that_is_much_slower_than_those_before_it_is_trouble(clock: Hand, before: list[int]) -> None:
    found = Access(clock)
    settled_after(found, before)
    asked_ms = clock.boot_ms()
    later(5_000)

    assert not found.is_settled(asked_ms=asked_ms)
    found.wrote(asked_ms=asked_ms)
    later(20)
    assert not found.is_settled(asked_ms=clock.boot_ms())


def test_a_stall_does_not_make_later_ones_ordinary(clock: Hand) -> None:
    found = Access(clock)
    settled_after(found, [60_000, *[300] * 8])

    assert not settled_after(found, [60_000])


def settled_after(found: Access, turns_ms: list[int]) -> bool:
    """Turn follows turn, each of so many milliseconds. Could a lease end in the next one?"""
    for turn_ms in turns_ms:
        asked_ms = Hand.now_ms
        later(turn_ms)
        found.wrote(asked_ms=asked_ms)
        later(20)
    return found.is_settled(asked_ms=Hand.now_ms)


@pytest.mark.anyio
async def test_to_ask_ahead_of_an_expiry_tells_what_is_known_when_it_comes(tmp_path: Path) -> None:
    """An idle sweeper wrote last long ago. What it writes when it asks ahead is fresh when the lease ends."""
    path = tmp_path / "ledger.db"
    ledger = open_ledger(f"sqlite:///{path}")
    await ledger.promote()

    assert await ledger.expire(stamp_ms=0) == 0

    reader = apsw.Connection(str(path))
    assert reader.execute("SELECT count(*) FROM meta WHERE k = 'knocked_at_ms'").fetchall() == [(1,)]
    reader.close()
    await ledger.close()
