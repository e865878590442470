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
import signal
import statistics
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from bench.contender import Contender, Peer, Unfit, installed, peers  # noqa: E402 - the path is set above
from bench.phases import PHASES, SHORTHAND, Measured, Phase, Sizes  # noqa: E402
from bench.servers import started  # noqa: E402

US = "planrun"
BESIDE = {"p99": " (p99 {:.3g})", "cpu_ms": " ({:.2g} ms CPU each)"}  # of `Measured.more`, what the table shows


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
        pairs = zip(self.ours, self.theirs, strict=False)
        return [self._ratio(ours.value, theirs.value) for ours, theirs in pairs if ours.value and theirs.value]

    @property
    def best_ratio(self) -> float | None:
        """Of the best run of either: what disturbs a run from outside only ever slows it down."""
        best = max if PHASES[self.phase].more_is_better else min
        ours, theirs = ([run.value for run in runs if run.value] for runs in (self.ours, self.theirs))
        return self._ratio(best(ours), best(theirs)) if ours and theirs else None

    def _ratio(self, ours: float, theirs: float) -> float:
        return ours / theirs if PHASES[self.phase].more_is_better else theirs / ours


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
    for name, words in BESIDE.items():
        if beside := [run.more[name] for run in runs if name in run.more]:
            text += words.format(statistics.median(beside))
    if remarks := {run.remark for run in runs if run.value and run.remark}:
        text += f" {', '.join(remarks)}"
    if len(values) < len(runs):
        text += f" in {len(values)} of {len(runs)} runs"
    return text


def ratio(row: Row) -> str:
    if ratios := row.ratios:
        spread = f"{min(ratios):.2f} … {statistics.median(ratios):.2f} … {max(ratios):.2f}"
        return f"{spread}; {row.best_ratio:.2f}"
    able = [name for name, runs in ((US, row.ours), (row.peer, row.theirs)) if any(run.value for run in runs)]
    return f"only {able[0]}" if row.peer and len(able) == 1 else ""


def line(row: Row, known: dict[str, Peer]) -> list[str]:
    kept = "" if not row.peer or known[row.peer].fsynced else "not comparable: "
    stored = kept + known[row.peer].stored if row.peer else ""
    return [row.phase, row.unit, shown(row.ours), row.peer, shown(row.theirs), ratio(row), stored]


def print_table(rows: Sequence[Row]) -> None:
    known = peers()
    head = ["phase", "unit", US, "peer", "the peer", "ratio: min … median … max; best", "the peer's submit has stored"]
    lines = [head, *(line(row, known) for row in rows)]
    widths = [max(len(cells[column]) for cells in lines) for column in range(len(head))]
    for cells in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip())
    for name in dict.fromkeys(row.phase for row in rows):
        print(f"{name}: {PHASES[name].what}")
    loads = [row.load for row in rows]
    print(f"{os.cpu_count()} cores, load average {min(loads):.1f} to {max(loads):.1f}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default="huey", help="names from bench/peers/peers.toml; empty: planrun alone")
    parser.add_argument("--us", default=US, help=f"{US}, or fleet: an orchestrator, over HTTP and RabbitMQ")
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


@contextmanager
def contenders(these: Sequence[Peer], folder: Path, data: Path) -> Iterator[list[Contender]]:
    """Ready to be measured, with their servers, which they share, and which end with this context."""
    pythons = [installed(peer, folder / "peers") for peer in these]
    with ExitStack() as stack:
        servers = {
            name: stack.enter_context(started(name, data / "servers" / these[-1].name / name))
            for name in dict.fromkeys(name for peer in these for name in peer.servers)
        }
        yield [
            Contender(peer, data / peer.name, {name: servers[name] for name in peer.servers}, python)
            for peer, python in zip(these, pythons, strict=True)
        ]


def beside(name: str, phases: Sequence[str], asked: argparse.Namespace, data: Path) -> Iterator[Row]:
    """planrun beside one peer, or alone. A peer that cannot be measured says why."""
    known = peers()
    sizes = Sizes(**{size.name: getattr(asked, size.name) for size in fields(Sizes)})
    with contenders([known[each] for each in (asked.us, name) if each], asked.folder, data) as (us, *others):
        them = others[0] if others else None
        for phase in phases:
            began = time.monotonic()
            row = compare(PHASES[phase], us, them, rounds=asked.rounds, sizes=sizes)
            print("  ".join(line(row, known)), f" [{time.monotonic() - began:.0f} s]", file=sys.stderr)
            yield row


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and end what was started
    asked = parse()
    phases = [name for word in chosen(asked.phases, [*PHASES, *SHORTHAND]) for name in SHORTHAND.get(word, (word,))]
    data = asked.folder / f"data-{os.getpid()}"
    rows: list[Row] = []
    try:
        for name in chosen(asked.peers, peers()) or [""]:
            try:
                for row in beside(name, phases, asked, data):
                    rows.append(row)
            except Unfit as unfit:
                print(unfit, file=sys.stderr)
    finally:
        shutil.rmtree(data, ignore_errors=True)
    if not rows:
        return 1
    print_table(rows)
    kept = asked.json or asked.folder / "compare.json"
    kept.write_text(
        json.dumps([asdict(row) | {"ratios": row.ratios, "best_ratio": row.best_ratio} for row in rows], indent=1)
        + "\n"
    )
    print(f"every run: {kept}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
