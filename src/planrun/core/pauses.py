"""Sets of jobs that an operator has paused: they wait, keep their place, and nobody starts them. What runs goes on."""

from __future__ import annotations

from collections.abc import Iterable

from planrun.core.messages import Struct


class PauseRequest(Struct, kw_only=True):
    """Which jobs: of this namespace and kind; empty: any."""

    namespace: str = ""
    kind: str = ""
    who: str = ""
    why: str = ""


class Pause(Struct, kw_only=True):
    """One pause, in force until `resumed_at_ms` is set. Empty namespace or kind: any."""

    namespace: str
    kind: str
    paused_at_ms: int
    who: str = ""
    why: str = ""
    resumed_at_ms: int | None = None
    resumed_who: str = ""
    resumed_why: str = ""


def find_pause(pauses: Iterable[Pause], *, namespace: str, kind: str) -> Pause | None:
    """The first pause in force that holds jobs of this namespace and kind."""
    for pause in pauses:
        if pause.resumed_at_ms is None and pause.namespace in ("", namespace) and pause.kind in ("", kind):
            return pause
    return None


def set_in_words(pause: Pause | PauseRequest) -> str:
    """What is paused."""
    if not pause.kind:
        return f"namespace {pause.namespace}" if pause.namespace else "everything"
    return f"kind {pause.kind}{f' in namespace {pause.namespace}' if pause.namespace else ''}"


def pause_in_words(pause: Pause) -> str:
    """What is paused, by whom, and why."""
    by = f" by {pause.who}" if pause.who else ""
    return f"{set_in_words(pause)} is paused{by}{f': {pause.why}' if pause.why else ''}"
