"""A run of the lab on a terminal: a line for each thing that happened, and beside it where everybody stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.console import Console
from rich.text import Text

from planrun.sim.lab.history import Bar, History, Lane, Point, Span, Tone, What
from planrun.sim.lab.telling import seconds

WIDTH_UNKNOWN = 100  # of a pipe
WIDTH_MIN = 60
STYLES = {Tone.PLAIN: "", Tone.TROUBLE: "yellow", Tone.GUARD: "green", Tone.HARM: "bold red"}
OF_WORKER = {Bar.RUNS: "┃", Bar.UPLOADS: "╏", Bar.FROZEN: "░", Bar.DOWN: "×", Bar.CUT: "┆"}
IDLE = "·"
LEGEND = "┃ runs  ╏ stores  ░ stands still  × down  ┆ cut off  ● does something; ledger: who holds; store: whose bytes"


def print_timeline(history: History) -> None:
    """The timeline, the sentence, and how to see the same run again."""
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = WIDTH_UNKNOWN
    console.width = max(console.width, WIDTH_MIN)
    store = "lab store" if history.is_lab_store else "store"
    console.print(Text(f"{'':>8}  A  B  ledger  {store}", style="bold"))
    for point in _shown(history.points):
        _print_point(console, history, point)
    console.print()
    console.print(Text(history.sentence, style=STYLES[history.tone] or "bold"))
    counts = history.tally
    told = f"{counts.starts} started, {counts.files} stored, {counts.overwritten} overwritten, {counts.refused} refused"
    console.print(Text(f"{told}, {counts.answers} answered"))
    console.print()
    if history.is_lab_store:
        console.print(Text("The lab store keeps one key for the job; planrun's own has one for each attempt."))
    if history.is_fleet:
        console.print(Text("A fleet: the ledger waits 2 s longer than a holder trusts itself."))
    console.print(Text(LEGEND, style="dim"))
    console.print(Text(f"again: {history.command}", style="dim"))


def _shown(points: Iterable[Point]) -> Iterable[Point]:
    return (point for point in points if point.what is not What.RENEW)


def _print_point(console: Console, history: History, point: Point) -> None:
    lanes = {lane: _standing(history.spans, lane, point.at_ms) for lane in Lane}
    lanes[point.lane] = "●"
    line = Text(f"{seconds(point.at_ms):>8}  {lanes[Lane.A]}  {lanes[Lane.B]}  ")
    line.append(f"{lanes[Lane.LEDGER]:^6}  {lanes[Lane.STORE]:^9}  ")
    said = Text(f"{NAMES[point.lane]}: {point.says}", style="dim" if point.is_minor else STYLES[point.tone])
    first, *others = said.wrap(console, console.width - len(line))
    console.print(line + first)
    indent = len(line)
    for other in others:
        console.print(Text(" " * indent) + other)


def _standing(spans: Iterable[Span], lane: Lane, at_ms: int) -> str:
    """What lasts in a lane at that moment; of several, what stops the others."""
    here = {span.bar: span for span in spans if span.lane is lane and span.from_ms <= at_ms < span.to_ms}
    for bar in (Bar.DOWN, Bar.FROZEN, Bar.CUT, Bar.UPLOADS, Bar.RUNS):
        if bar in here:
            return OF_WORKER[bar]
    for bar in (Bar.HOLDS, Bar.READS):
        if bar in here:
            return (here[bar].by or lane).upper()
    return IDLE


NAMES: Mapping[Lane, str] = {Lane.A: "A", Lane.B: "B", Lane.LEDGER: "ledger", Lane.STORE: "store"}
