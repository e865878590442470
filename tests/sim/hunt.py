"""Run seeds until one does not hold, over the planrun that comes first on the path: `hunt.py FIRST LAST MODE`."""

from __future__ import annotations

import json
import sys

from planrun.sim.history import run_seed
from planrun.sim.settings import Mode


def hunt(first: int, last: int, mode: Mode | None) -> tuple[int, str] | None:
    """The first seed that does not hold, and which rule it broke."""
    for seed in range(first, last + 1):
        report = run_seed(seed, mode=mode)
        if report.violations:
            return seed, str(report.violations[0])
    return None


if __name__ == "__main__":
    first, last, mode = sys.argv[1:]
    json.dump(hunt(int(first), int(last), Mode(mode) if mode else None), sys.stdout)
