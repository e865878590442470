"""The life of one job, as a table.

Rule: every legal move is a row of `TRANSITIONS`. Nothing outside this module decides a next
state; the ledger carries out, under a fence, what was decided here.

Not states, on purpose: *delayed* is queued with a `not_before_ms` in the future, *offered* is a
hint that a message may be out, and *canceling* is a canceled job whose attempt has not stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class State(StrEnum):
    """Where a job is. The values are the SQL text."""

    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELED = "canceled"


class Reason(StrEnum):
    """Why a job failed."""

    PERMANENT = "permanent"  # the job said so: same input, same failure
    EXHAUSTED = "exhausted"  # a budget ran out; the error text says which and every cause
    UNSUPPORTED = "unsupported"  # no machine of the known fleet could ever run it
    DEADLINE = "deadline"  # the sender's own deadline passed


class Outcome(StrEnum):
    """How one attempt ended."""

    SUCCESS = "success"
    PERMANENT = "permanent"
    TRANSIENT = "transient"
    FATAL = "fatal"
    STALLED = "stalled"  # no sign of life for the kind's stall limit
    OVERTIME = "overtime"  # past the kind's run-time limit
    LOST = "lost"  # its worker vanished: lease ran out, or death was proven
    RELEASED = "released"  # handed back by its holder, unharmed
    CANCELED = "canceled"


class Event(StrEnum):
    """What may happen to a job."""

    GRANT = "grant"
    SUCCEED = "succeed"
    FAIL = "fail"
    REQUEUE = "requeue"  # transient, lost or released, with room in the budgets
    CANCEL = "cancel"


TRANSITIONS: Mapping[State, Mapping[Event, State]] = {
    State.QUEUED: {
        Event.GRANT: State.RUNNING,
        Event.FAIL: State.FAILED,  # unsupported, or past its deadline
        Event.CANCEL: State.CANCELED,
    },
    State.RUNNING: {
        Event.SUCCEED: State.FINISHED,
        Event.FAIL: State.FAILED,
        Event.REQUEUE: State.QUEUED,
        Event.CANCEL: State.CANCELED,
    },
    State.FINISHED: {},
    State.FAILED: {},
    State.CANCELED: {},
}

ENDED = frozenset(state for state, moves in TRANSITIONS.items() if not moves)


def next_state(state: State, event: Event) -> State:
    """The state after an event.

    Raises:
        ValueError: The table has no such move: a bug, or a corrupt row.
    """
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        raise ValueError(f"a {state} job cannot {event}") from None
