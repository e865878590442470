"""Which copy of a ledger may run, by what it and its store know."""

from __future__ import annotations

from typing import Any

import pytest

from planrun.core.generations import (
    History,
    Known,
    Mark,
    Taken,
    generation_in,
    generation_key,
    mark_in,
    mark_key,
    taken_of,
    why_not,
)
from planrun.core.manifests import manifest_key, manifest_of, named_in

MINE, OTHER = Taken(owner="me", at_ms=1), Taken(owner="other", at_ms=2)


def history(**given: Any) -> History:
    return History(**{"uuid": "u", "generation": 1, "n": 100, "owner": "me", **given})


def known(generations: dict[int, Taken], high: tuple[int, int] | None = None) -> Known:
    return Known(generations=generations, high=None if high is None else Mark(generation=high[0], n=high[1]))


@pytest.mark.parametrize(
    ("ledger", "store"),
    [
        (history(owner="", n=0), known({})),  # a new ledger, or one that never had a store
        (history(owner=""), known({1: OTHER})),  # killed when it had taken its first generation
        (history(owner=""), known({1: OTHER, 2: OTHER})),
        (history(), known({1: MINE})),
        (history(), known({1: MINE}, (1, 100))),
        (history(), known({1: MINE}, (1, 60))),  # killed before the mark was renewed
        (history(generation=3), known({1: OTHER, 3: MINE}, (2, 900))),
        (history(owner="", copied_at_ms=5), known({})),  # a copy of a ledger that never had a store
    ],
)
def test_the_newest_copy_may_run(ledger: History, store: Known) -> None:
    assert why_not(ledger, store) == ""


@pytest.mark.parametrize(
    ("ledger", "store", "words"),
    [
        (history(), known({1: MINE}, (1, 101)), "it has counted to 100, and was at 101"),
        (history(owner=""), known({1: OTHER}, (1, 101)), "it has counted to 100, and was at 101"),
        (history(owner="", n=500), known({1: OTHER, 2: OTHER}, (2, 101)), "generation 2 has taken over"),
        (history(), known({1: MINE, 2: OTHER}, (1, 100)), "generation 2 has taken over"),
        (history(), known({1: MINE}, (2, 3)), "generation 2 has taken over"),
        (history(), known({}), "does not know its generation 1"),
        (history(generation=2), known({1: MINE}, (1, 50)), "does not know its generation 2"),
        (history(), known({1: OTHER}, (1, 100)), "another copy of it has taken generation 1"),
        (history(copied_at_ms=5), known({1: MINE}, (1, 100)), "made by `planrun backup`"),
        (history(rolled_back="behind its workers"), known({1: MINE}), "behind its workers"),
    ],
)
def test_any_other_copy_is_told_what_was_found(ledger: History, store: Known, words: str) -> None:
    assert words in why_not(ledger, store)


def test_a_key_says_what_it_is_the_key_of() -> None:
    mark = Mark(generation=12, n=34)

    assert mark_in(mark_key("u", mark)) == mark
    assert generation_in(generation_key("u", 7)) == 7
    assert named_in(manifest_key("ads", "job")) == "job"
    for key in ("ledger/u/gen/x", "ledger/u/high/1", "ledger/u/high/a-b", "ads/jobs/j/1-2/results/x.json", "x", ""):
        assert (generation_in(key), mark_in(key), named_in(key)) == (None, None, None)
    assert named_in(generation_key("u", 7)) is None


def test_what_is_no_manifest_and_no_taking_is_none() -> None:
    for data in (b"", b"{}", b"[1]", b'{"result": 7}', b"\xff"):
        assert manifest_of(manifest_key("ads", "job"), data) is None
        assert taken_of(data) is None
