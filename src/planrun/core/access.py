"""Who may ask for what over HTTP."""

from __future__ import annotations

from enum import StrEnum


class Scope(StrEnum):
    """What a call is part of: handing jobs in and asking about them, running them, or operating the whole."""

    SUBMIT = "submit"
    WORK = "work"
    OPERATE = "operate"  # implies submit
