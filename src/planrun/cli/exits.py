"""Exit status of every command. Scripts may rely on these numbers."""

from __future__ import annotations

from enum import IntEnum

from planrun.core.errors import Conflict, Invalid, PlanrunError, ResultGone, UnknownJob, WaitTimeout
from planrun.core.life import State


class Exit(IntEnum):
    FINISHED = 0  # the job finished, or the command did what it was asked
    FAILED = 1  # the job failed; for `check`: something is wrong
    USAGE = 2  # the command line, or what it names, cannot be right
    RUNNING = 3  # still running at the timeout; the job goes on
    CANCELED = 4
    UNREACHABLE = 5  # the ledger or the store gives no answer, or must not be opened
    UNKNOWN = 6  # no such job
    GONE = 7  # the job ended, but its result is no longer kept
    FATAL = 70  # the worker is broken: restart it
    INTERRUPTED = 130  # Ctrl-C, as every shell program
    READER_GONE = 141  # nobody reads what it prints, as every shell program that SIGPIPE ends


def exit_of(error: PlanrunError) -> Exit:
    """What the shell sees of an error."""
    match error:
        case Invalid() | Conflict():
            return Exit.USAGE
        case WaitTimeout():
            return Exit.RUNNING
        case UnknownJob():
            return Exit.UNKNOWN
        case ResultGone():
            return Exit.GONE
        case _:
            return Exit.UNREACHABLE


def exit_of_state(state: State) -> Exit:
    """What the shell sees of a job."""
    match state:
        case State.FINISHED:
            return Exit.FINISHED
        case State.FAILED:
            return Exit.FAILED
        case State.CANCELED:
            return Exit.CANCELED
        case State.QUEUED | State.RUNNING:
            return Exit.RUNNING
