"""How long something takes, for people."""

from __future__ import annotations

import re

_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|h|d)")
_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86_400}


def read_span(text: str) -> float | None:
    """Seconds of a text such as "90min", "12h" or "30d"; None: it is none."""
    parts = _SPAN.fullmatch(text.strip())
    return None if parts is None else float(parts[1]) * _SECONDS[parts[2]]


def span(ms: int) -> str:
    """A duration, to two digits that matter: 0.4 s, 12 s, 5 min, 3 h, 2 d."""
    seconds = ms / 1000
    if seconds < 10:
        return f"{seconds:.1f} s"
    for unit, length, next_length in (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172_800)):
        if seconds < next_length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"
