"""When silence of a lease's holder means something, and when it was the file that let nobody speak."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import apsw
import pytest

from planrun.ledger.sqlite import access
from planrun.ledger.sqlite.access import Access
from planrun.wiring import open_ledger


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(access, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_in_ordinary_traffic_silence_is_the_holders_own(clock: list[float]) -> None:
    found = Access(CLOCK)
    clock[0] += 1
    found.wrote(asked_s=clock[0] - 0.01)

    assert found.is_settled(asked_s=clock[0])


def test_a_turn_that_came_late_means_nothing_yet(clock: list[float]) -> None:
    found = Access(CLOCK)
    clock[0] += 5

    assert not found.is_settled(asked_s=clock[0] - 5)


@pytest.mark.parametrize("trouble", ["failed", "delayed", "not looked"])
def test_after_trouble_holders_have_a_moment(clock: list[float], trouble: str) -> None:
    found = Access(CLOCK)
    if trouble == "failed":
        found.failed()
    clock[0] += 5
    assert not found.is_settled(asked_s=clock[0])
    found.wrote(asked_s=clock[0] - (5 if trouble == "delayed" else 0))

    assert not found.is_settled(asked_s=clock[0])
    clock[0] += access.MOMENT_S
    found.wrote(asked_s=clock[0])
    assert found.is_settled(asked_s=clock[0])


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
