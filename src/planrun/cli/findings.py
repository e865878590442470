"""What `planrun check` has found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found, in the order in which it is shown.

    Attributes:
        facts: For people.
        document: The same for programs.
        problems: What is wrong and what to do; empty: all is well.
    """

    facts: list[tuple[str, str]] = field(default_factory=list)
    document: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def add(self, name: str, shown: str, value: Any) -> None:
        self.facts.append((name, shown))
        self.document[name] = value
