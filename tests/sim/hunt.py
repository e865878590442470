"""Run seeds until one does not hold, over the planrun that comes first on the path: `hunt.py FIRST LAST MODE KIND…`."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection

from planrun.sim.faults import draw
from planrun.sim.history import run_plan
from planrun.sim.settings import Mode


def hunt(first: int, last: int, mode: Mode | None, sure: Collection[str]) -> tuple[int, str] | None:
    """The first seed that does not hold, and which rule it broke.

    Args:
        sure: Kinds of faults that every history has.
    """
    for seed in range(first, last + 1):
        report = run_plan(draw(seed, mode=mode, sure=sure))
        if report.violations:
            return seed, str(report.violations[0])
    return None


if __name__ == "__main__":
    first, last, mode, *sure = sys.argv[1:]
    json.dump(hunt(int(first), int(last), Mode(mode) if mode else None, sure), sys.stdout)
