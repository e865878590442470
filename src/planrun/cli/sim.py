"""`planrun sim`."""

from __future__ import annotations

import re

from cyclopts.types import PositiveFloat, PositiveInt

from planrun.cli.asking import AsJson, Flag
from planrun.cli.exits import Exit
from planrun.cli.printing import print_json
from planrun.cli.saying import say
from planrun.clock import Clock, SystemClock
from planrun.core.errors import Invalid
from planrun.sim.campaign import Campaign, Tally, run_campaign
from planrun.sim.history import Report, run_seed
from planrun.sim.settings import Mode
from planrun.sim.shrink import shrink as shrunk

JOBS = 8
MINUTES_MAX = 365 * 24 * 60
SAID_EVERY_MS = 60_000


def sim(
    *,
    seed: int | None = None,
    seeds: str = "",
    minutes: PositiveFloat | None = None,
    jobs: PositiveInt = JOBS,
    mode: Mode | None = None,
    processes: PositiveInt = 1,
    trace: Flag = False,
    shrink: Flag = False,
    json: AsJson = False,
) -> int:
    """Run histories in which everything goes wrong, over the very code that is installed, and see whether all holds.

    A seed is one history: the same one each time, on every machine. Nothing of this box is touched. Exits with 1 if
    something did not hold, and names the seeds. Meanwhile stderr says what does not hold as soon as it is found, and
    once a minute how far it is; Ctrl-C ends it, and what was run until then is summed up.

    For example:

      planrun sim --seed 7 --trace
      planrun sim --seed 7 --shrink
      planrun sim --seeds 1..1000
      planrun sim --minutes 60 --processes 2

    Args:
        seed: Run this one.
        seeds: Run these: FIRST..LAST.
        minutes: Run seeds from 1 on, or from the first of --seeds on, for so long.
        jobs: How many jobs are handed in.
        mode: Only this kind of installation: a box, or a fleet. By default each seed has its own.
        processes: How many histories run at once.
        trace: Print what happens, line by line: when, who, what, with job, attempt and token.
        shrink: If it does not hold: look for the smallest history that breaks the same rule (a minute or two), and
            print it as a test with its trace.
    """
    if seed is not None and (seeds or minutes):
        raise Invalid("--seed is one history; for many say --seeds FIRST..LAST, or --minutes")
    if minutes is not None and minutes > MINUTES_MAX:
        raise Invalid(f"--minutes {minutes:g}: at most {MINUTES_MAX:g}, which is a year")
    if seed is not None:
        return _one(run_seed(seed, jobs=jobs, mode=mode, traced=trace and not json), shrink=shrink, json=json)
    if trace or shrink:
        raise Invalid(f"--{'trace' if trace else 'shrink'} is for one history: say which with --seed")
    first, last = _range(seeds, minutes)
    campaign = Campaign(first=first, last=last, minutes=minutes, jobs=jobs, mode=mode, processes=processes)
    options = f"{f' --jobs {jobs}' * (jobs != JOBS)}{f' --mode {mode}' if mode else ''}"
    news = _News(SystemClock.open_system(), options)
    is_cut_short = False
    try:
        run_campaign(campaign, news.clock, news.tally, tell=news.say)
    except KeyboardInterrupt:
        is_cut_short = True
    if json:
        print_json(news.tally.as_dict() | {"jobs": jobs, "mode": mode})
    else:
        _print_tally(news.tally, options)
    if news.tally.failed:
        return Exit.FAILED
    return Exit.INTERRUPTED if is_cut_short else Exit.FINISHED


class _News:
    """What is said of many histories while they are run.

    Attributes:
        tally: Of those that are over.
    """

    def __init__(self, clock: Clock, options: str) -> None:
        """
        Args:
            options: What makes one of these histories again, beside its seed.
        """
        self.clock = clock
        self._options = options
        self.tally = Tally()
        self._began_ms = self._said_ms = clock.boot_ms()
        self._named: set[int] = set()

    def say(self) -> None:
        """Some more are over."""
        for seed in sorted(self.tally.failed.keys() - self._named):
            self._named.add(seed)
            say(_violation_in_words(seed, self.tally.failed[seed], self._options))
        now_ms = self.clock.boot_ms()
        if now_ms - self._said_ms >= SAID_EVERY_MS:
            self._said_ms = now_ms
            held = f"{len(self._named)} did not hold" if self._named else "all of them held"
            minutes = (now_ms - self._began_ms) / 60_000
            say(f"after {minutes:.0f} min: {self.tally.histories} histories, {held}")


def _one(report: Report, *, shrink: bool, json: bool) -> int:
    small = shrunk(report) if shrink and report.violations else None
    if json:
        print_json(_as_dict(report) | ({"script": small.script} if small else {}))
    elif small:
        print(f"{report.violations[0]}\nThe smallest history that breaks this rule, after {small.tries} tries:\n")
        print(small.script)
        _print_report(small.report)
    else:
        _print_report(report)
    return Exit.FAILED if report.violations else Exit.FINISHED


def _range(seeds: str, minutes: float | None) -> tuple[int, int | None]:
    """The first and the last seed; None: as far as time goes."""
    if not seeds:
        return 1, None if minutes else 100
    match = re.fullmatch(r"(\d+)\.\.(\d+)", seeds)
    if match is None or int(match[1]) > int(match[2]):
        raise Invalid(f"--seeds {seeds}: write FIRST..LAST, such as 1..1000")
    return int(match[1]), int(match[2])


def _as_dict(report: Report) -> dict[str, object]:
    tally = Tally(histories=1, steps=report.steps, lasted_s=report.lasted_s)
    tally.counts.update({name: count for name, count in report.counts.as_dict().items() if count})
    tally.modes[report.plan.settings.mode.value] = 1
    if report.violations:
        tally.failed[report.plan.seed] = [str(violation) for violation in report.violations]
    return tally.as_dict()


def _print_report(report: Report) -> None:
    print(report.trace, end="")
    settings = report.plan.settings
    print(f"seed {report.plan.seed}: {settings.mode}, {settings.workers} workers, {len(settings.orders)} calls")
    for act in report.plan.acts:
        print(f"  {act}")
    print(f"{_sum_of(report.counts.as_dict())}; {report.lasted_s:.0f} s in {report.steps} steps")
    if not report.violations:
        print("everything holds")
    for violation in report.violations:
        print(f"VIOLATION {violation}")


def _print_tally(tally: Tally, options: str) -> None:
    modes = ", ".join(f"{count} {mode}" for mode, count in sorted(tally.modes.items()))
    print(f"{tally.histories} histories ({modes}): {_sum_of(tally.counts)}; {tally.lasted_s / 3600:.1f} h simulated")
    if not tally.failed and tally.histories:
        print("everything holds")
    for seed, found in sorted(tally.failed.items()):
        print(_violation_in_words(seed, found, options))


def _violation_in_words(seed: int, found: list[str], options: str) -> str:
    return f"VIOLATION in seed {seed}: {found[0].splitlines()[0]}\n  planrun sim --seed {seed}{options} --trace"


def _sum_of(counts: dict[str, int]) -> str:
    return ", ".join(f"{counts.get(name, 0)} {word}" for name, word in _WORDS.items())


_WORDS = {
    "jobs": "jobs",
    "grants": "starts",
    "losses": "lost",
    "failures": "failed",
    "handbacks": "handed back",
    "refused": "late ends refused",
    "messages": "messages",
    "beliefs": "trusted an ended lease",
    "commits": "commits",
}
