"""Lines for people, beside what a command prints for whoever reads its output."""

from __future__ import annotations

import sys
from contextlib import suppress


def say(text: str) -> None:
    """A line on stderr, at once. Where nobody listens any more, nothing ends for that."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)
