"""planrun beside what one might take instead, as ratios within one run.

planrun and a peer take turns, A B B A A B …, so that a machine that gets slower or faster meanwhile tells of neither.
A ratio above 1 means that planrun is better, whatever the unit. See bench/README.md.

    python bench/compare.py --peers huey,pgqueuer --phases submit,bulk,drain,latency,kill,term --rounds 5
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from bench.contender import Contender, Peer, Unfit, installed, peers  # noqa: E402 - the path is set above
from bench.phases import PHASES, SHORTHAND, Measured, Phase, Sizes  # noqa: E402
from bench.servers import started  # noqa: E402

US = "planrun"


@dataclass(frozen=True)
class Row:
    """One phase with one peer; runs in pairs, the peer's list empty if planrun ran alone."""

    phase: str
    unit: str
    peer: str
    ours: list[Measured]
    theirs: list[Measured]
    load: float

    @property
    def ratios(self) -> list[float]:
        """Above 1: planrun is better. Pairs in which both have a value."""
        pairs = [
            (ours.value, theirs.value)
            for ours, theirs in zip(self.ours, self.theirs, strict=False)
            if ours.value and theirs.value
        ]
        better = PHASES[self.phase].more_is_better
        return [ours / theirs if better else theirs / ours for ours, theirs in pairs]


def compare(phase: Phase, us: Contender, them: Contender | None, *, rounds: int, sizes: Sizes) -> Row:
    runs: dict[str, list[Measured]] = {US: [], "": []}
    load = os.getloadavg()[0]
    for turn in range(rounds):
        order = [us, them] if turn % 2 == 0 else [them, us]
        for contender in filter(None, order):
            try:
                runs[US if contender is us else ""].append(phase.run(contender, sizes))
            finally:
                contender.kill()
    return Row(phase.name, phase.unit, them.peer.name if them else "", runs[US], runs[""], load)


def shown(runs: Sequence[Measured]) -> str:
    """The median, and what belongs to it; or what happened instead of a value."""
    values = [run.value for run in runs if run.value is not None]
    if not values:
        return runs[-1].remark if runs else ""
    text = (
        f"{statistics.median(values):,.3g}" if statistics.median(values) < 1000 else f"{statistics.median(values):,.0f}"
    )
    if "p99" in runs[0].more:
        text += f" (p99 {statistics.median(run.more['p99'] for run in runs if 'p99' in run.more):.3g})"
    if len(values) < len(runs):
        text += f" in {len(values)} of {len(runs)} runs"
    return text


def line(row: Row, known: dict[str, Peer]) -> list[str]:
    ratios = row.ratios
    spread = f"{min(ratios):.2f} … {statistics.median(ratios):.2f} … {max(ratios):.2f}" if ratios else ""
    kept = "" if not row.peer or known[row.peer].fsynced else "not comparable: "
    stored = kept + known[row.peer].stored if row.peer else ""
    return [row.phase, row.unit, shown(row.ours), row.peer, shown(row.theirs), spread, stored]


def print_table(rows: Sequence[Row], known: dict[str, Peer]) -> None:
    head = ["phase", "unit", US, "peer", "the peer", "ratio: min … median … max", "the peer's submit has stored"]
    lines = [head, *(line(row, known) for row in rows)]
    widths = [max(len(cells[column]) for cells in lines) for column in range(len(head))]
    for cells in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip())
    for name in dict.fromkeys(row.phase for row in rows):
        print(f"{name}: {PHASES[name].what}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default="huey", help="names from bench/peers/peers.toml; empty: planrun alone")
    parser.add_argument("--phases", default="submit,bulk,drain,latency", help=f"of {', '.join(PHASES)}, drain")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=Path(f"/var/tmp/planrun-bench-{os.getuid()}"), help="on a disk")
    parser.add_argument("--json", type=Path, help="default: compare.json in the folder")
    for size in fields(Sizes):
        kind = type(size.default)
        parser.add_argument(f"--{size.name.replace('_', '-')}", type=kind, default=size.default)
    return parser.parse_args()


def chosen(words: str, offered: Collection[str]) -> list[str]:
    names = [name for name in words.split(",") if name]
    for name in names:
        if name not in offered:
            raise SystemExit(f"{name!r} is unknown: use some of {', '.join(offered)}")
    return names


def main() -> int:
    asked = parse()
    known = peers()
    names = chosen(asked.peers, known)
    phases = [name for word in chosen(asked.phases, [*PHASES, *SHORTHAND]) for name in SHORTHAND.get(word, (word,))]
    sizes = Sizes(**{size.name: getattr(asked, size.name) for size in fields(Sizes)})
    data = asked.folder / f"data-{os.getpid()}"
    rows = []
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, data, ignore_errors=True)
        us = Contender(known[US], data / US, {}, Path(sys.executable))
        for name in names or [""]:
            try:
                them = None
                if name:
                    python = installed(known[name], asked.folder / "peers")
                    servers = {
                        server: stack.enter_context(started(server, data / "servers" / name / server))
                        for server in known[name].servers
                    }
                    them = Contender(known[name], data / name, servers, python)
                for phase in phases:
                    began = time.monotonic()
                    rows.append(compare(PHASES[phase], us, them, rounds=asked.rounds, sizes=sizes))
                    print("  ".join(line(rows[-1], known)), f"  [{time.monotonic() - began:.0f} s]", file=sys.stderr)
            except Unfit as unfit:
                print(unfit, file=sys.stderr)
    print_table(rows, known)
    kept = asked.json or asked.folder / "compare.json"
    kept.write_text(json.dumps([asdict(row) | {"ratios": row.ratios} for row in rows], indent=1) + "\n")
    print(f"every run: {kept}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
