"""C73: every page, count and look with a million ended and ten thousand waiting jobs: 200 ms at most, in flat memory.

A sample fills a tenth of that.
"""

from __future__ import annotations

import asyncio
import resource
import tempfile
import time
from pathlib import Path

from bench.listing import SLOW_MS, fill, measure
from planrun.wiring import open_ledger

ENDED, WAITING = 1_000_000, 10_000
GROWTH_KIB_MAX = 64 * 1024


def main(minutes: float | None) -> int:
    share = 1 if minutes is None else 10
    ended, waiting = ENDED // share, WAITING // share
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "full.db"
        asyncio.run(open_ledger(f"sqlite:///{path}").close())
        began = time.monotonic()
        fill(path, ended=ended, waiting=waiting)
        print(f"filled in {time.monotonic() - began:.0f} s", flush=True)
        before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(3):  # a machine that gets busy in between proves nothing: measure again
            found = asyncio.run(measure(f"sqlite:///{path}", jobs=ended + waiting))
            slowest = max(found, key=lambda name: found[name])
            grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
            print(f"{len(found)} questions, the slowest is {slowest}: {found[slowest]:.1f} ms; grew by {grown_kib} KiB")
            if found[slowest] <= SLOW_MS and grown_kib <= GROWTH_KIB_MAX:
                return 0
    return 1
