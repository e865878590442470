"""What happened in a history, line by line: when, who, what."""

from __future__ import annotations

from typing import NamedTuple


class Line(NamedTuple):
    """Attributes:
    at_s: True time.
    job, attempt, token: What it is about, if it is about one.
    """

    at_s: float
    who: str
    what: str
    job: str = ""
    attempt: int | None = None
    token: int | None = None

    def __str__(self) -> str:
        about = f"  {self.job}" if self.job else ""
        if self.attempt is not None:
            about += f" attempt {self.attempt}"
        if self.token is not None:
            about += f" token {self.token}"
        return f"{self.at_s:10.3f}  {self.who:<12} {self.what}{about}"


class Trace:
    """The lines of one history."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def __str__(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)
