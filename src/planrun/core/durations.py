"""How long something takes, for people."""

from __future__ import annotations


def span(ms: int) -> str:
    """A duration, to two digits that matter: 0.4 s, 12 s, 5 min, 3 h, 2 d."""
    seconds = ms / 1000
    if seconds < 10:
        return f"{seconds:.1f} s"
    for unit, length, next_length in (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172_800)):
        if seconds < next_length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"
