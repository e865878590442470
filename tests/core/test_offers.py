"""Who goes first: by urgency, and every tenth start by age."""

from __future__ import annotations

import pytest

from planrun.core.messages import Lease
from planrun.core.offers import OLDEST_EVERY, Offer, oldest_at, since_oldest, with_oldest


def offer(name: str, *, by_age: bool = False) -> Offer:
    return Offer(job_id=name, attempt=1, namespace="default", kind="preview", version="v1", by_age=by_age)


def lease(token: int = 1) -> Lease:
    return Lease(job_id="any", attempt=1, token=token)


@pytest.mark.parametrize(
    ("since", "free", "at"), [(0, 1, None), (8, 1, None), (9, 1, 0), (30, 1, 0), (6, 4, 3), (6, 3, None), (0, 10, 9)]
)
def test_the_oldest_stands_where_the_tenth_start_would_be(since: int, free: int, at: int | None) -> None:
    assert oldest_at(since, free) == at


@pytest.mark.parametrize(
    ("oldest", "at", "order"),
    [("z", 0, "zabc"), ("z", 2, "abzc"), ("b", 0, "bac"), ("b", 2, "abc"), ("c", 9, "abc"), ("z", 9, "abcz")],
)
def test_the_oldest_stands_in_line_once_and_never_later_than_its_urgency_would_let_it(
    oldest: str, at: int, order: str
) -> None:
    line = with_oldest([offer(name) for name in "abc"], offer(oldest), at)

    assert [found.job_id for found in line] == list(order)
    assert [found.job_id for found in line if found.by_age] == [oldest]


def test_a_start_by_age_stays_due_until_it_was_had() -> None:
    assert since_oldest(9, offer("urgent"), lease()) == 10
    assert since_oldest(10, offer("oldest", by_age=True), lease()) == 0


@pytest.mark.parametrize("life", [2, 3, 7, 9, 25])
def test_workers_that_start_anew_all_the_time_go_by_age_too(life: int) -> None:
    """Each starts `life` jobs and ends; the tokens go on."""
    by_age_count, since = 0, None
    for token in range(1, 1_001):
        if token % life == 1:
            since = None
        by_age = oldest_at(since or 0, 1) is not None
        by_age_count += by_age
        since = since_oldest(since, offer("any", by_age=by_age), lease(token))

    assert by_age_count >= 1_000 / OLDEST_EVERY / 2
