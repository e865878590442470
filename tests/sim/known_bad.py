"""Builds that are known to be bad: a guard of the protocol is taken down in a copy, and the simulator has to notice.

    python -m tests.sim.known_bad            all of them; for each, how many seeds it took
    python -m tests.sim.known_bad --name x   those whose name contains x

The models say what must be found (`models/run.py`): this says whether histories of the shipped code find it, too, and
how soon. What is there to save work alone must not be found at all.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from tests.guards.copies import Copy
from tests.guards.fences import Fence
from tests.sim.bad_builds import BUILDS, Build

SEEDS_MAX = 2_000
SEEDS_OF_ECONOMY = 100
AT_ONCE = 2
HUNT = Path(__file__).with_name("hunt.py")
REPORT = Path(__file__).parents[2] / "build" / "known_bad.md"


class Found(NamedTuple):
    """Attributes:
    seeds: How many histories it took, or were looked at in vain.
    what: What was broken; empty: nothing.
    """

    build: Build
    seeds: int
    what: str
    took_s: float

    @property
    def is_right(self) -> bool:
        return self.what.startswith(self.build.finds) if self.build.finds else not self.what

    def __str__(self) -> str:
        found = self.what.partition(":")[0] if self.what else "nothing"
        wanted = "" if self.is_right else f", WANTED {self.build.finds or 'nothing'}: {self.what:.300}"
        return f"{self.build.name:62} {found:8} after {self.seeds:5} seeds, {self.took_s:6.1f} s{wanted}"


def look(build: Build, copy: Copy, seeds_max: int) -> Found:
    """Take the guard down, and look for a seed that does not hold."""
    began_s = time.monotonic()
    last = seeds_max if build.finds else min(seeds_max, SEEDS_OF_ECONOMY)
    fences = [Fence(build.name, *edit, ()) for edit in build.edits]
    try:
        for fence in fences:
            if copy.count(fence) != 1:
                return Found(build, 0, f"?{fence.file} has changed: bring the build up to date", 0)
            copy.take_down(fence)
        command = [sys.executable, str(HUNT), "1", str(last), build.mode, *build.sure]
        environment = {**os.environ, "PYTHONPATH": str(copy.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    finally:
        for fence in fences:
            copy.restore(fence)
    took_s = time.monotonic() - began_s
    if done.returncode:
        return Found(build, 0, f"?{done.stderr[-500:]}", took_s)
    found = json.loads(done.stdout)
    return Found(build, found[0] if found else last, found[1] if found else "", took_s)


def look_at(builds: Sequence[Build], *, seeds_max: int = SEEDS_MAX, at_once: int = AT_ONCE) -> Iterator[Found]:
    """All of these, as they end in their order."""
    with tempfile.TemporaryDirectory(prefix="planrun-known-bad-") as folder, ThreadPoolExecutor(at_once) as pool:
        copies: SimpleQueue[Copy] = SimpleQueue()
        for n in range(at_once):
            copies.put(Copy(Path(folder, str(n))))

        def one(build: Build) -> Found:
            copy = copies.get()
            try:
                return look(build, copy, seeds_max)
            finally:
                copies.put(copy)

        yield from pool.map(one, builds)


def table(founds: Sequence[Found]) -> str:
    """In Markdown, for docs/internals/simulator.md."""
    rows = ["| build | broken | histories |", "| --- | --- | --- |"]
    for found in founds:
        broken = found.what.partition(" ")[0] if found.what else "nothing"
        rows.append(f"| {found.build.name} | {broken} | {found.seeds} |")
    return "\n".join(rows) + "\n"


def main(name: str = "", seeds_max: int = SEEDS_MAX, at_once: int = AT_ONCE) -> int:
    founds = []
    for found in look_at([build for build in BUILDS if name in build.name], seeds_max=seeds_max, at_once=at_once):
        print(found, flush=True)
        founds.append(found)
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(table(founds))
    wrong = sum(not found.is_right for found in founds)
    print(f"{wrong} not as they must be" if wrong else "all as they must be", f"({REPORT})")
    return 1 if wrong else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--name", default="")
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX, help="at most so many for each")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="so many builds at once")
    asked = parser.parse_args()
    sys.exit(main(asked.name, asked.seeds, asked.at_once))
