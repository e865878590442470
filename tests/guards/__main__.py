"""Take down each guard in a copy of the source: a test that was written for it must fail there.

    make guards          all of them
    make guards NAME=x   those whose name, or file, contains NAME

A mutant that lives is a hole in the tests, found by nobody else, or a guard that nobody misses. A whole run leaves
its report in build/guards.md.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .every import EVERY
from .runs import Verdict, run_all

REPORT = Path("build") / "guards.md"
AT_ONCE = 2


def table(verdicts: Sequence[Verdict]) -> str:
    """The report, by kind."""
    lines = ["# Guards", "", "| guard | kind | where | killer | seconds |", "| --- | --- | --- | --- | --- |"]
    for each in sorted(verdicts, key=lambda each: each.guard.kind, reverse=True):
        guard = each.guard
        kind = f"{guard.kind}: {guard.wastes}" if guard.wastes else guard.kind
        cells = (guard.name, kind, guard.file, each.killer or "**lives**")
        lines.append(" | ".join(["", *(" ".join(cell.split()).replace("|", "\\|") for cell in cells)]).strip())
        lines[-1] += f" | {each.took_s:.1f} |"
    return "\n".join(lines) + "\n"


def told(verdict: Verdict) -> str:
    guard = verdict.guard
    return (
        f"{guard.kind:8} {verdict.took_s:5.1f} s  {' '.join(guard.name.split())}\n"
        f"                  {verdict.killer or f'LIVES: {verdict.why}'}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.guards", description=__doc__.partition("\n")[0])
    parser.add_argument("name", nargs="?", default="", help="those whose name, or file, contains this")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help=f"processes at a time ({AT_ONCE})")
    parser.add_argument("--json", action="store_true", help="print one JSON array at the end, and nothing else")
    asked = parser.parse_args()
    guards = [guard for guard in EVERY if asked.name in guard.name or asked.name in guard.file]
    if not guards:
        parser.error(f"there is no guard with {asked.name!r} in its name or file")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # takes the running ones along
    verdicts = []
    with tempfile.TemporaryDirectory(prefix="planrun-guards-") as folder:
        for verdict in run_all(guards, Path(folder), at_once=asked.at_once):
            verdicts.append(verdict)
            if not asked.json:
                print(told(verdict), flush=True)
    if not asked.name:
        REPORT.parent.mkdir(exist_ok=True)
        REPORT.write_text(table(verdicts))
    living = [each for each in verdicts if not each.killer]
    if asked.json:
        print(json.dumps([each.as_json() for each in verdicts], indent=1))
    else:
        for each in living:  # once more: a long log is read from its end
            print(told(each))
        safety = sum(each.guard.kind == "safety" for each in verdicts)
        print(f"{len(verdicts)} guards, {safety} of safety, {len(verdicts) - safety} of economy; {len(living)} live")
    return 1 if living else 0


if __name__ == "__main__":
    os.chdir(Path(__file__).parents[2])
    sys.exit(main())
