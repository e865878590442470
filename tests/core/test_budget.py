"""What an ended attempt means for its job: waits, budgets, and the words when one runs out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planrun.core.budget import Budgets, Counter, after_attempt, backoff_ms
from planrun.core.life import TRANSITIONS, Event, Outcome, Reason, State

FAULTS = [Outcome.TRANSIENT, Outcome.FATAL, Outcome.STALLED, Outcome.OVERTIME]

budgets = st.builds(
    Budgets,
    failures=st.integers(0, 30),
    max_attempts=st.integers(1, 30),
    losses=st.integers(0, 30),
    max_losses=st.integers(1, 30),
    handbacks=st.integers(0, 60),
    max_handbacks=st.integers(0, 60),
)


def waits_until_exhausted(outcome: Outcome, *, started: bool = True) -> list[int]:
    """End every attempt alike, and write down the waits until the job fails."""
    now = Budgets()
    waits: list[int] = []
    for _ in range(100):
        verdict = after_attempt(now, outcome, started=started)
        if verdict.event is Event.FAIL:
            return waits
        assert verdict.counter is not None
        now = replace(now, **{verdict.counter.value: getattr(now, verdict.counter.value) + 1})
        waits.append(verdict.wait_ms)
    raise AssertionError("the job never ends")


@pytest.mark.parametrize("outcome", FAULTS)
def test_a_failing_job_waits_2_then_4_then_8_seconds_and_then_fails(outcome: Outcome) -> None:
    assert waits_until_exhausted(outcome) == [2_000, 4_000, 8_000]


def test_the_first_loss_costs_no_wait_and_the_eighth_ends_the_job() -> None:
    assert waits_until_exhausted(Outcome.LOST) == [0, 2_000, 4_000, 8_000, 8_000, 8_000, 8_000]


def test_twenty_handbacks_are_free_and_the_next_ends_the_job() -> None:
    assert waits_until_exhausted(Outcome.RELEASED) == [0] * 20


def test_a_job_that_never_started_waits_by_its_handbacks() -> None:
    assert waits_until_exhausted(Outcome.RELEASED, started=False) == [2_000, 4_000, *[8_000] * 18]


@given(st.integers(-5, 10_000))
def test_the_wait_never_shrinks_and_never_passes_8_seconds(times: int) -> None:
    assert 0 <= backoff_ms(times) <= backoff_ms(times + 1) <= 8_000


@given(budgets, st.sampled_from(Outcome), st.booleans())
def test_every_outcome_at_every_budget_has_a_legal_verdict(now: Budgets, outcome: Outcome, started: bool) -> None:
    verdict = after_attempt(now, outcome, started=started)

    assert verdict.event in TRANSITIONS[State.RUNNING]
    assert (verdict.event is Event.FAIL) == (verdict.reason is not None)
    assert (verdict.reason is Reason.EXHAUSTED) == bool(verdict.spent)
    assert verdict.wait_ms == 0 or verdict.event is Event.REQUEUE
    assert verdict.wait_ms in (0, 2_000, 4_000, 8_000)


@given(budgets, st.sampled_from(Outcome), st.booleans())
def test_an_attempt_that_ends_without_success_raises_exactly_its_own_counter(
    now: Budgets, outcome: Outcome, started: bool
) -> None:
    expected = {
        Outcome.SUCCESS: None,
        Outcome.CANCELED: None,
        Outcome.LOST: Counter.LOSSES,
        Outcome.RELEASED: Counter.HANDBACKS,
    }

    assert after_attempt(now, outcome, started=started).counter is expected.get(outcome, Counter.FAILURES)


@given(budgets, st.sampled_from(Outcome))
def test_a_job_goes_back_in_line_only_while_the_counted_budget_has_room(now: Budgets, outcome: Outcome) -> None:
    has_room = {
        Counter.FAILURES: now.failures + 1 < now.max_attempts,
        Counter.LOSSES: now.losses + 1 < now.max_losses,
        Counter.HANDBACKS: now.handbacks + 1 <= now.max_handbacks,
    }

    verdict = after_attempt(now, outcome)

    if outcome is Outcome.PERMANENT:
        assert (verdict.event, verdict.reason) == (Event.FAIL, Reason.PERMANENT)
    elif verdict.counter is not None:
        assert (verdict.event is Event.REQUEUE) == has_room[verdict.counter]


@given(budgets, st.sampled_from([*FAULTS, Outcome.LOST, Outcome.RELEASED]))
def test_one_budget_never_pays_for_another(now: Budgets, outcome: Outcome) -> None:
    """A job that lost seven workers still has all of its own attempts."""
    verdict = after_attempt(now, outcome)
    counter = verdict.counter
    assert counter is not None
    others_full = {c.value: 999 for c in Counter if c is not counter}

    assert after_attempt(replace(now, **others_full), outcome) == verdict


@pytest.mark.parametrize(
    ("now", "outcome", "words"),
    [
        (Budgets(failures=3), Outcome.TRANSIENT, "4 of 4 attempts failed"),
        (Budgets(losses=7), Outcome.LOST, "8 workers were lost"),
        (Budgets(handbacks=20), Outcome.RELEASED, "handed back 21 times"),
    ],
)
def test_the_text_says_which_budget_ran_out(now: Budgets, outcome: Outcome, words: str) -> None:
    assert words in after_attempt(now, outcome).spent
