"""The table of all runs, in Markdown: one line per peer. What its columns mean stands in bench/README.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.contender import peers, settings
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
    return f"{shown[0]} s" if shown[0] == shown[1] else f"{shown[0]} to {shown[1]} s"


def starts(counted: list[Counted], _: Runs) -> str:
    least, most = min(each.starts for each in counted), max(each.starts for each in counted)
    return f"{least if least == most else f'{least} to {most}'} start{'' if most == 1 else 's'}"


def second(counted: list[Counted], runs: Runs) -> str:
    """To the second start."""
    values = [each.second_s for each in counted if each.second_s is not None]
    unneeded = sum(each.second_s is None and not each.lost for each in counted)
    vain = len(counted) - len(values) - unneeded
    words = [seconds(values)] if values else []
    words += [f"none: the first went on, {unneeded} of {len(counted)}"] if unneeded else []
    words += [f"**not in {runs[0].watched_s:g} s**, {vain} of {len(counted)}"] if vain else []
    return "; ".join(words)


def killed(counted: list[Counted], runs: Runs) -> str:
    return second(counted, runs) + (" (it is the worker)" if any(run.said.get("child") for run in runs) else "")


def stopped(counted: list[Counted], runs: Runs) -> str:
    said = list(dict.fromkeys(run.said.get("worker", "").split(" after")[0] for run in runs))
    beside = sum(each.at_once > 1 for each in counted)
    words = [second(counted, runs), f"worker {' or '.join(said)}"]
    return "; ".join([*words, f"**beside the first run**, {beside} of {len(runs)}"] if beside else words)


def overwritten(counted: list[Counted], runs: Runs) -> str:
    """By an attempt that had begun before the one whose result it replaced."""
    return replaced([each.late for each in counted], [each.answers_late for each in counted], runs)


def replaced(in_file: Sequence[int], in_store: Sequence[int], runs: Runs) -> str:
    file, own = (
        f"**{times} of {len(runs)}**" if times else f"0 of {len(runs)}"
        for times in (sum(count > 0 for count in counts) for counts in (in_file, in_store))
    )
    return f"file {file}, {f'store {own}' if peers()[runs[0].peer].results else 'no store'}"


def ran_over(counted: list[Counted], runs: Runs) -> str:
    """What a late attempt overwrites is told apart from what the next one, which began later, replaces."""
    words = [f"{starts(counted, runs)}, {max(each.at_once for each in counted)} at once"]
    by_next = [each.overwritten - each.late for each in counted]
    answers_by_next = [each.answers_overwritten - each.answers_late for each in counted]
    if any(by_next + answers_by_next):
        words.append(f"replaced by the next attempt: {replaced(by_next, answers_by_next, runs)}")
    if any(each.late + each.answers_late for each in counted):
        words.append(f"by a late one: {overwritten(counted, runs)}")
    return "; ".join(words)


def lived_through(counted: list[Counted], runs: Runs) -> str:
    ends = [each.result_s for each in counted if each.result_s is not None]
    spent = " / ".join(dict.fromkeys(run.said.get("counted") or "–" for run in runs))
    return f"{starts(counted, runs)}; {seconds(ends) if ends else '**no result**'}; {spent}"


COLUMNS: dict[str, tuple[str, Cell]] = {
    "worker killed": ("whole", second),
    "its job's process killed": ("child", killed),
    "SIGTERM": ("term", stopped),
    "worker frozen": ("freeze", second),
    "and thawed: overwritten": ("freeze", overwritten),
    "longer than the broker waits": ("longer", ran_over),
    "five deploys": ("storm", lived_through),
    "submitted three times": ("twice", starts),
}


def cell(runs: Runs, make: Cell) -> str:
    counted = [run.counted for run in runs if run.counted]
    return make(counted, [run for run in runs if run.counted]) if counted else "not played"


def table(runs: Runs) -> str:
    names = list(dict.fromkeys(run.peer for run in runs))
    scenarios = {run.scenario for run in runs}
    columns = {title: column for title, column in COLUMNS.items() if column[0] in scenarios}
    lines = [["", *columns, "no result"], ["---"] * (len(columns) + 2)]
    for name in names:
        own = [run for run in runs if run.peer == name]
        cells = [cell([run for run in own if run.scenario == each], make) for each, make in columns.values()]
        counted = [run.counted for run in own if run.counted]
        lost = sum(each.lost for each in counted)
        lines.append([f"**{name}**", *cells, f"{f'**{lost}**' if lost else lost} of {len(counted)}"])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def set_up(names: Sequence[str]) -> str:
    """How each peer was set up, and why."""
    lines = ["| peer | setting | why |", "| --- | --- | --- |"]
    for name in names:
        lines += [f"| {name} | `{setting}` | {reason} |" for setting, reason in settings(name).items()]
    return "\n".join(lines)
