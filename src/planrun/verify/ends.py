"""How a job of a run may end, to the letter: what it was asked for, and what the faults explain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from planrun.client import Answer
from planrun.core.budget import Budgets, after_attempt
from planrun.core.life import Outcome, Reason, State
from planrun.verify.kinds import REFUSED
from planrun.verify.plan import ATTEMPTS_MAX
from planrun.verify.story import Story


@dataclass(frozen=True, slots=True)
class End:
    """What an answer says of how the job ended. `code` is the error's; empty: there is none."""

    state: State
    reason: Reason | None = None
    code: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.state, self.reason, self.code and f"({self.code})")))


FINISHED = End(State.FINISHED)
AS_ASKED = End(State.FAILED, Reason.PERMANENT, REFUSED)
CANCELED = End(State.CANCELED, code="canceled")
GAVE_UP = End(State.FAILED, Reason.EXHAUSTED, "exhausted")


def end_of(answer: Answer) -> End:
    return End(answer.state, answer.reason, answer.error.code if answer.error is not None else "")


def asked_for(story: Story) -> set[End]:
    """Ends that the job was handed in for. Whoever cancels may come too late."""
    ends = {AS_ASKED if story.ask.refuses else FINISHED}
    return ends if story.ask.cancel_after_s is None else {*ends, CANCELED}


def gives_up(outcomes: Sequence[Outcome]) -> bool:
    """Do these ends of attempts use up what may go wrong, with the last one and not before?"""
    budgets = Budgets(max_attempts=ATTEMPTS_MAX)
    for n, outcome in enumerate(outcomes, 1):
        verdict = after_attempt(budgets, outcome)
        if verdict.reason is Reason.EXHAUSTED:
            return n == len(outcomes)
        if verdict.counter is not None:
            budgets = replace(budgets, **{verdict.counter: getattr(budgets, verdict.counter) + 1})
    return False
