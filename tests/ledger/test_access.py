"""When silence of a lease's holder means something, and when it was the file that let nobody speak."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from planrun.ledger.sqlite import access
from planrun.ledger.sqlite.access import Access


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(access, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_in_ordinary_traffic_silence_is_the_holders_own(clock: list[float]) -> None:
    found = Access()
    clock[0] += 1
    found.wrote(asked_s=clock[0] - 0.01)

    assert found.is_settled(asked_s=clock[0])


def test_a_turn_that_came_late_means_nothing_yet(clock: list[float]) -> None:
    found = Access()
    clock[0] += 5

    assert not found.is_settled(asked_s=clock[0] - 5)


@pytest.mark.parametrize("trouble", ["failed", "delayed", "not looked"])
def test_after_trouble_holders_have_a_moment(clock: list[float], trouble: str) -> None:
    found = Access()
    if trouble == "failed":
        found.failed()
    clock[0] += 5
    assert not found.is_settled(asked_s=clock[0])
    found.wrote(asked_s=clock[0] - (5 if trouble == "delayed" else 0))

    assert not found.is_settled(asked_s=clock[0])
    clock[0] += access.MOMENT_S
    found.wrote(asked_s=clock[0])
    assert found.is_settled(asked_s=clock[0])
