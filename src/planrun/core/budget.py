"""What may still go wrong before a job ends as exhausted, and how long it waits in between.

The attempt number is the fence and only grows; what runs out is counted here, in three budgets
that are charged when an attempt *ends*:

    failures   the job raised, its process died or hit a limit   max_attempts   4: the waits of 2, 4 and 8 s all occur
    losses     its worker was gone or cut off                    max_losses     8: a lost host is not the job's fault
    handbacks  given back unharmed, by a worker that drains      max_handbacks 20: a deploy is free, a livelock ends
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from planrun.core.life import Event, Outcome, Reason

BACKOFF_MS = (2_000, 4_000, 8_000)


class Counter(StrEnum):
    """A budget, by the name of its column."""

    FAILURES = "failures"
    LOSSES = "losses"
    HANDBACKS = "handbacks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """What a job has used up, and its limits."""

    failures: int = 0
    max_attempts: int = 4
    losses: int = 0
    max_losses: int = 8
    handbacks: int = 0
    max_handbacks: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What becomes of a job whose attempt ended.

    Attributes:
        event: The move in the table of `life`.
        reason: Set exactly when the job fails.
        counter: The budget that grows by one, if any.
        wait_ms: How long the job waits before its next attempt; 0 unless it is queued again.
        spent: Which budget ran out, in words; empty unless the reason is exhausted.
    """

    event: Event
    reason: Reason | None = None
    counter: Counter | None = None
    wait_ms: int = 0
    spent: str = ""


def after_attempt(budgets: Budgets, outcome: Outcome, *, started: bool = True) -> Verdict:
    """Decide what an ended attempt means for its job.

    Args:
        budgets: As they stand before this attempt is charged.
        outcome: How the attempt ended.
        started: False if the job code never began: the next attempt waits by its hand-backs.

    Returns:
        The verdict. Source of the rules: docs/concepts/failure-classes.md.
    """
    match outcome:
        case Outcome.SUCCESS:
            return Verdict(event=Event.SUCCEED)
        case Outcome.CANCELED:
            return Verdict(event=Event.CANCEL)
        case Outcome.PERMANENT:
            return Verdict(event=Event.FAIL, reason=Reason.PERMANENT, counter=Counter.FAILURES)
        case Outcome.TRANSIENT | Outcome.FATAL | Outcome.STALLED | Outcome.OVERTIME:
            used = budgets.failures + 1
            if used >= budgets.max_attempts:
                return _exhausted(Counter.FAILURES, f"{used} of {budgets.max_attempts} attempts failed")
            return Verdict(event=Event.REQUEUE, counter=Counter.FAILURES, wait_ms=backoff_ms(used))
        case Outcome.LOST:
            used = budgets.losses + 1
            if used >= budgets.max_losses:
                return _exhausted(Counter.LOSSES, f"{used} workers were lost while they ran it")
            # The first loss is a host's bad luck: go on at once. A second one may be the job's doing.
            return Verdict(event=Event.REQUEUE, counter=Counter.LOSSES, wait_ms=backoff_ms(used - 1))
        case Outcome.RELEASED:
            used = budgets.handbacks + 1
            if used > budgets.max_handbacks:
                return _exhausted(Counter.HANDBACKS, f"handed back {used} times without a newer checkpoint")
            wait_ms = 0 if started else backoff_ms(used)
            return Verdict(event=Event.REQUEUE, counter=Counter.HANDBACKS, wait_ms=wait_ms)
        case _:
            assert_never(outcome)


def backoff_ms(times: int) -> int:
    """The wait after the n-th failure in milliseconds: 2, 4, 8 s, then 8 s; none for n = 0."""
    if times <= 0:
        return 0
    return BACKOFF_MS[min(times, len(BACKOFF_MS)) - 1]


def _exhausted(counter: Counter, spent: str) -> Verdict:
    return Verdict(event=Event.FAIL, reason=Reason.EXHAUSTED, counter=counter, spent=spent)
