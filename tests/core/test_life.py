"""The table of a job's life, walked move by move."""

from __future__ import annotations

import itertools

import pytest

from planrun.core.life import ENDED, TRANSITIONS, Event, Outcome, Reason, State, next_state

LEGAL = {
    (State.QUEUED, Event.GRANT): State.RUNNING,
    (State.QUEUED, Event.FAIL): State.FAILED,
    (State.QUEUED, Event.CANCEL): State.CANCELED,
    (State.RUNNING, Event.SUCCEED): State.FINISHED,
    (State.RUNNING, Event.FAIL): State.FAILED,
    (State.RUNNING, Event.REQUEUE): State.QUEUED,
    (State.RUNNING, Event.CANCEL): State.CANCELED,
}


@pytest.mark.parametrize(("state", "event"), list(itertools.product(State, Event)))
def test_every_pair_of_state_and_event_is_a_known_move_or_refused(state: State, event: Event) -> None:
    if (state, event) in LEGAL:
        assert next_state(state, event) is LEGAL[state, event]
    else:
        with pytest.raises(ValueError, match=f"a {state} job cannot {event}"):
            next_state(state, event)


def test_the_table_covers_every_state() -> None:
    assert set(TRANSITIONS) == set(State)


def test_exactly_finished_failed_and_canceled_are_ends() -> None:
    assert {State.FINISHED, State.FAILED, State.CANCELED} == ENDED


def test_an_end_is_never_left() -> None:
    assert not any(TRANSITIONS[state] for state in ENDED)


def test_from_every_state_every_end_can_be_reached_unless_it_is_one() -> None:
    reached = {State.QUEUED}
    while True:
        further = reached | {after for state in reached for after in TRANSITIONS[state].values()}
        if further == reached:
            break
        reached = further

    assert reached == set(State)


def test_the_words_of_the_enums_are_the_text_of_the_ledger() -> None:
    """Rows of old ledgers are read with these words: a renamed one would orphan them."""
    assert [str(state) for state in State] == ["queued", "running", "finished", "failed", "canceled"]
    assert [str(reason) for reason in Reason] == ["permanent", "exhausted", "unsupported", "deadline"]
    assert [str(outcome) for outcome in Outcome] == [
        "success", "permanent", "transient", "fatal", "stalled", "overtime", "lost", "released", "canceled",
    ]  # fmt: skip
