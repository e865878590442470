"""Workers that an operator lets run empty: they take no more work, finish what runs, and end.

It counts for the worker processes that live now, not for those that start later under the same name.
"""

from __future__ import annotations

from planrun.core.messages import Struct


class DrainRequest(Struct, kw_only=True):
    """Which worker processes, and for the history who asks and why."""

    incarnations: tuple[str, ...]
    who: str = ""
    why: str = ""


class Drain(Struct, kw_only=True):
    """One worker process that was drained.

    Attributes:
        ended_at_ms: Since then it is over: undone, or the worker went.
        undone_who, undone_why: Of whoever undid it.
    """

    incarnation: str
    worker: str
    drained_at_ms: int
    who: str = ""
    why: str = ""
    ended_at_ms: int | None = None
    undone: bool = False
    undone_who: str = ""
    undone_why: str = ""


def drain_in_words(drain: Drain) -> str:
    """Which worker, by whom, and why."""
    by = f" by {drain.who}" if drain.who else ""
    return f"worker {drain.worker} is drained{by}{f': {drain.why}' if drain.why else ''}"
