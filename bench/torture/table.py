"""The table of all runs, in Markdown: one line per peer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.contender import Peer
from bench.torture.history import Counted


@dataclass(frozen=True)
class Run:
    """One scenario with one peer, once.

    Attributes:
        counted: None if it could not be played: the remark says why.
        said: What the scenario alone can say.
        watched_s: How long something that did not come was waited for.
    """

    peer: str
    scenario: str
    turn: int
    counted: Counted | None
    said: dict[str, str]
    watched_s: float
    load: float
    remark: str = ""


Runs = Sequence[Run]
Cell = Callable[[list[Counted], Runs], str]


def seconds(values: Sequence[float]) -> str:
    """Least and most."""
    shown = [f"{value:.2f}" if value < 1 else f"{value:.1f}" for value in (min(values), max(values))]
    return shown[0] if shown[0] == shown[1] else f"{shown[0]} to {shown[1]}"


def second(counted: list[Counted], runs: Runs) -> str:
    """Seconds to the second start."""
    values = [each.second_s for each in counted if each.second_s is not None]
    vain = len(counted) - len(values)
    words = [seconds(values)] if values else []
    if vain:
        without = sum(each.second_s is None and not each.lost for each in counted)
        words += [f"none needed, {without} of {len(counted)}"] if without else []
        words += [f"**not in {runs[0].watched_s:g} s**, {vain - without} of {len(counted)}"] if vain > without else []
    return "; ".join(words)


def stopped(counted: list[Counted], runs: Runs) -> str:
    said = list(dict.fromkeys(run.said.get("worker", "").split(" after")[0] for run in runs))
    return f"{second(counted, runs)}; worker {' or '.join(said)}"


def total(what: str) -> Cell:
    def cell(counted: list[Counted], _: Runs) -> str:
        values = [getattr(each, what) for each in counted]
        return f"{min(values)}" if min(values) == max(values) else f"{min(values)} to {max(values)}"

    return cell


def overwritten(counted: list[Counted], runs: Runs) -> str:
    file, own = sum(each.overwritten > 0 for each in counted), sum(each.answers_overwritten > 0 for each in counted)
    return f"{file} of {len(runs)}; {own}"


def lived_through(counted: list[Counted], runs: Runs) -> str:
    ends = [each.result_s for each in counted if each.result_s is not None]
    spent = " / ".join(dict.fromkeys(run.said.get("counted") or "nothing" for run in runs))
    return f"{total('starts')(counted, runs)}; {seconds(ends) if ends else '**no result**'}; {spent}"


def ran_over(counted: list[Counted], runs: Runs) -> str:
    return f"{total('starts')(counted, runs)}; {total('at_once')(counted, runs)}; {overwritten(counted, runs)}"


COLUMNS: dict[str, tuple[str, Cell]] = {
    "worker killed: s to second start": ("whole", second),
    "its job's process killed": ("child", second),
    "SIGTERM": ("term", stopped),
    "frozen, thawed late: s to second start": ("freeze", second),
    "result overwritten: file; own store": ("freeze", overwritten),
    "job longer than the broker's timeout: starts; at once; overwritten": ("longer", ran_over),
    "five deploys: starts; s to the result; counted": ("storm", lived_through),
    "submitted three times: starts": ("twice", total("starts")),
}


def cell(runs: Runs, make: Cell) -> str:
    counted = [run.counted for run in runs if run.counted]
    return make(counted, [run for run in runs if run.counted]) if counted else "not played"


def table(runs: Runs, known: dict[str, Peer]) -> str:
    names = list(dict.fromkeys(run.peer for run in runs))
    scenarios = {run.scenario for run in runs}
    columns = {title: column for title, column in COLUMNS.items() if column[0] in scenarios}
    lines = [["", *columns, "lost"], ["---"] * (len(columns) + 2)]
    for name in names:
        own = [run for run in runs if run.peer == name]
        cells = [cell([run for run in own if run.scenario == each], make) for each, make in columns.values()]
        counted = [run.counted for run in own if run.counted]
        lost = sum(each.lost for each in counted)
        lines.append([f"**{name}**", *cells, f"{lost} of {len(counted)}"])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
