"""What the permanent history of a job tells of: every kind of line that there is."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class What(StrEnum):
    """What happened. The values are the SQL text; that of an attempt's end is its outcome."""

    SUBMITTED = "submitted"
    JOINED = "joined"
    ANSWERED = "answered"
    RETRIED = "retried"
    GRANTED = "granted"
    CHECKPOINT = "checkpoint"
    SUCCESS = "success"
    PERMANENT = "permanent"
    TRANSIENT = "transient"
    FATAL = "fatal"
    STALLED = "stalled"
    OVERTIME = "overtime"
    LOST = "lost"
    RELEASED = "released"
    CANCELED = "canceled"
    UNSUPPORTED = "unsupported"
    DEADLINE = "deadline"
    STOPPED = "stopped"
    REFUSED = "refused"
    PUBLISHED = "published"
    SUPERSEDED = "superseded"
    UNPUBLISHED = "unpublished"
    PARKED = "parked"
    ADOPTED = "adopted"


MEANINGS: Mapping[What, str] = {
    What.SUBMITTED: "a submit made the job; which request, and of which job it is a retry",
    What.JOINED: "another submit with the same key found it open",
    What.ANSWERED: "another submit with the same key found it ended, and gets the stored answer",
    What.RETRIED: "it had failed or was canceled, and was submitted again as the job that is named",
    What.GRANTED: "an attempt was given to a worker; who it is, and its token",
    What.CHECKPOINT: "the attempt left something to go on from; how many files and bytes",
    What.SUCCESS: "the attempt ended with a result: the job is finished",
    What.PERMANENT: "the job said that the same input fails the same way; the message",
    What.TRANSIENT: "the attempt failed, and may do better; the message, and when it is tried again",
    What.FATAL: "the job said that its worker is broken; the message, and when it is tried again",
    What.STALLED: "no sign of life for its limit `stall_s`",
    What.OVERTIME: "it ran longer than its limit `max_runtime_s`",
    What.LOST: "its worker is dead, or gave no sign for a lease; who found out, and how",
    What.RELEASED: "its worker handed it back unharmed; why",
    What.CANCELED: "somebody ended it on purpose; who, and why",
    What.UNSUPPORTED: "no worker of the known fleet could ever run it; what is missing",
    What.DEADLINE: "the sender's deadline passed before it had ended",
    What.STOPPED: "all processes of an attempt that had lost its job are known to be dead",
    What.REFUSED: "an attempt that no longer owned the job wanted to write its end; nothing changed",
    What.PUBLISHED: "a copy of the result stands under the public name",
    What.SUPERSEDED: "the public name belongs to a later job that asked for it",
    What.UNPUBLISHED: "the public name was not taken; why",
    What.PARKED: "an answer is sent no more: nobody was there to take it, as long as the result was kept; where",
    What.ADOPTED: "the ledger was restored, and the answer had been said before; how the job ended",
}

ENDS = frozenset({
    What.SUCCESS, What.PERMANENT, What.TRANSIENT, What.FATAL, What.STALLED, What.OVERTIME, What.LOST, What.RELEASED,
    What.CANCELED, What.UNSUPPORTED, What.DEADLINE,
})  # fmt: skip
"""How an attempt ends, and a job with it."""
