"""What the oracle finds and counts, and the rows that it looks at."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import NamedTuple


class Violation(NamedTuple):
    """Attributes:
    rule: Such as `S2`.
    """

    rule: str
    what: str
    at_s: float

    def __str__(self) -> str:
        return f"{self.rule} at {self.at_s:.3f} s: {self.what}"


class JobRow(NamedTuple):
    """A job as it stands in the ledger."""

    state: str
    attempt: int
    token: int | None
    failures: int
    max_attempts: int
    losses: int
    max_losses: int
    handbacks: int
    max_handbacks: int
    closing: int
    incarnation: str | None


@dataclass
class Counts:
    """What a history was made of."""

    commits: int = 0
    jobs: int = 0
    grants: int = 0
    losses: int = 0
    failures: int = 0
    handbacks: int = 0
    refused: int = 0
    messages: int = 0
    beliefs: int = 0  # S10: a lease ended while its holder still trusted itself

    def as_dict(self) -> dict[str, int]:
        return asdict(self)
