"""Windows, shares and rates of offers, and the brake of a sweep."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planrun.core.brake import is_braked
from planrun.core.dispatch import fair, is_overdue, window
from planrun.core.errors import Invalid
from planrun.core.offers import Offer
from planrun.core.rates import Bucket, parse_rate


def line(namespace: str, count: int) -> list[Offer]:
    return [
        Offer(job_id=f"{namespace}{n}", attempt=1, namespace=namespace, kind="preview", version="v1")
        for n in range(count)
    ]


@pytest.mark.parametrize(
    ("slots", "free", "starts_per_s", "expected"),
    [(4, 4, 0, 8), (4, 1, 0, 2), (4, 0, 0, 0), (4, 0, 3, 3), (4, 0, 400, 8), (4, 4, 400, 8), (0, 0, 9, 0)],
)
def test_a_window_is_two_for_each_free_slot_and_what_busy_ones_take_in_a_second(
    slots: int, free: int, starts_per_s: int, expected: int
) -> None:
    assert window(slots=slots, free=free, starts_per_s=starts_per_s) == expected


@pytest.mark.parametrize(
    ("overdue_ms", "is_empty", "is_idle"),
    [(600_000, False, True), (600_000, False, False), (60_000, True, False), (5_000, True, True)],
)
def test_an_offer_is_overdue_after_ten_minutes_or_one_where_nothing_lies_or_seconds_where_machines_idle_besides(
    overdue_ms: int, is_empty: bool, is_idle: bool
) -> None:
    assert not is_overdue(overdue_ms - 1, is_empty=is_empty, is_idle=is_idle)
    assert is_overdue(overdue_ms, is_empty=is_empty, is_idle=is_idle)


@given(
    waiting=st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 12), min_size=1),
    holds=st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 6)),
    turns=st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 99)),
    limit=st.integers(0, 40),
)
def test_who_holds_less_than_another_is_served_before_it(
    waiting: dict[str, int], holds: dict[str, int], turns: dict[str, int], limit: int
) -> None:
    lines = {name: line(name, count) for name, count in waiting.items()}
    chosen = fair(lines, holds=holds, turns=turns, limit=limit)

    assert len(chosen) == min(limit, sum(waiting.values()))
    for name in waiting:
        own = [offer for offer in chosen if offer.namespace == name]
        assert own == lines[name][: len(own)]
    got = Counter(offer.namespace for offer in chosen)
    passed_over = [holds.get(name, 0) + got[name] for name, count in waiting.items() if got[name] < count]
    assert all(holds.get(name, 0) + got[name] - 1 <= least for name in got for least in passed_over)


def test_equals_take_turns_and_the_one_that_waited_longest_begins() -> None:
    lines = {name: line(name, 3) for name in "abc"}

    chosen = fair(lines, holds={}, turns={"a": 7, "b": 5}, limit=6)

    assert [offer.namespace for offer in chosen] == ["c", "b", "a"] * 2


def test_a_bucket_holds_what_one_second_brings_and_fills_steadily() -> None:
    bucket = Bucket.full(2.0, 0)
    assert bucket.whole == 2
    bucket = bucket.take(2)
    assert (bucket.whole, bucket.next_ms()) == (0, 500)
    assert [bucket.at(at_ms).whole for at_ms in (499, 500, 1_000, 60_000)] == [0, 1, 2, 2]


def test_a_slow_rate_lets_one_start_at_a_time_and_a_rate_of_nothing_none() -> None:
    slow = Bucket.full(0.1, 0)
    assert slow.whole == 1
    assert slow.take(1).next_ms() == 10_000
    assert (Bucket.full(0.0, 0).at(9_000).whole, Bucket.full(0.0, 0).next_ms()) == (0, None)


@pytest.mark.parametrize(
    ("text", "expected"), [("preview=5/s", 5.0), ("preview=30/min", 0.5), ("preview=36/h", 0.01), ("preview=0/s", 0.0)]
)
def test_a_rate_is_written_per_second_minute_or_hour(text: str, expected: float) -> None:
    kind, per_s = parse_rate(text)

    assert per_s is not None
    assert (kind, round(per_s, 9)) == ("preview", expected)


def test_any_rate_is_no_limit() -> None:
    assert parse_rate("preview=any") == ("preview", None)


@pytest.mark.parametrize(
    "text", ["preview", "preview=5", "=5/s", "preview=x/s", "preview=-1/s", "preview=nan/s", "a=5/d"]
)
def test_what_is_no_rate_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(Invalid, match="preview=5/s"):
        parse_rate(text)


@pytest.mark.parametrize(
    ("silent", "running", "was_braked", "expected"),
    [
        ([2, 2, 2, 2, 2], 20, False, True),
        ([2, 2, 2, 2, 2], 34, False, False),
        ([9, 9, 9, 9], 40, False, False),
        ([9, 9, 9, 9], 40, True, True),
        ([9], 40, True, False),
        ([], 0, True, False),
    ],
)
def test_very_many_are_thirty_percent_on_five_workers_until_it_is_over(
    silent: list[int], running: int, was_braked: bool, expected: bool
) -> None:
    counts = {f"w{n}": count for n, count in enumerate(silent)}

    assert is_braked(counts, running=running, was_braked=was_braked) is expected
