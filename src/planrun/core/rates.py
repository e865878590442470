"""How many jobs of a kind may start per second: a bucket that fills steadily and holds what one second brings."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from planrun.core.errors import Invalid
from planrun.core.spelling import is_name


@dataclass(frozen=True, slots=True)
class Bucket:
    """Attributes:
    per_s: Jobs per second; less than one is fine.
    level: How many may start now.
    seen_ms: When that was so, boottime.
    """

    per_s: float
    level: float
    seen_ms: int

    @classmethod
    def full(cls, per_s: float, now_ms: int) -> Bucket:
        return cls(per_s, _depth(per_s), now_ms)

    def at(self, now_ms: int) -> Bucket:
        """The same bucket later."""
        level = self.level + self.per_s * max(0, now_ms - self.seen_ms) / 1000
        return replace(self, level=min(level, _depth(self.per_s)), seen_ms=now_ms)

    def take(self, count: int) -> Bucket:
        return replace(self, level=self.level - count)

    @property
    def whole(self) -> int:
        """How many jobs may start."""
        return max(0, math.floor(self.level + 1e-9))

    def next_ms(self) -> int | None:
        """When the next one may start, boottime; None: never."""
        if self.per_s <= 0:
            return None
        return self.seen_ms + math.ceil(max(0.0, 1 - self.level) / self.per_s * 1000)


def _depth(per_s: float) -> float:
    """What one second brings, but one job at least: unless there shall be none."""
    return max(1.0, per_s) if per_s > 0 else 0.0


def parse_rate(text: str) -> tuple[str, float | None]:
    """`KIND=N/s`, also `/min` and `/h`; `KIND=any` is no limit.

    Returns:
        Kind, and jobs per second; None: as fast as they can be taken.

    Raises:
        Invalid: In one line, with an example.
    """
    kind, _, rate = text.partition("=")
    if rate == "any" and is_name(kind):
        return kind, None
    amount, _, unit = rate.partition("/")
    seconds = {"s": 1, "min": 60, "h": 3600}.get(unit)
    try:
        count = float(amount)
    except ValueError:
        count = -1.0
    if seconds is None or not is_name(kind) or not 0 <= count < math.inf:
        raise Invalid(f"{text!r} is not a rate; write KIND=N/s, such as preview=5/s or preview=30/min")
    return kind, count / seconds


def rate_in_words(per_s: float) -> str:
    """In the unit in which it is a plain number."""
    for unit, seconds in (("s", 1), ("min", 60)):
        if per_s * seconds >= 1 or not per_s:
            return f"{per_s * seconds:g}/{unit}"
    return f"{per_s * 3600:g}/h"
