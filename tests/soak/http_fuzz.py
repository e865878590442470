"""Random calls on the HTTP API over jobs in every state: no 500, replies as described, every error says what to do.

The seed is printed: FUZZ_SEED repeats it.
"""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path

from tests.web.fuzzing import fuzz

FULL_MINUTES = 20.0


def main(minutes: float | None) -> int:
    seconds = max(1, round(60 * (FULL_MINUTES if minutes is None else minutes)))
    seed = os.environ.get("FUZZ_SEED", str(random.randrange(2**32)))
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        code, said = fuzz(Path(folder), "--phases", "fuzzing,stateful", "--max-time", str(seconds), "--seed", seed)
    print(said)
    return code
