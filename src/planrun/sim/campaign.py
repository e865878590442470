"""Many histories, one after the other or several at once: what they were made of, and which did not hold."""

from __future__ import annotations

import gc
import itertools
import multiprocessing
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from planrun.clock import Clock
from planrun.sim.history import run_seed
from planrun.sim.loop import in_words
from planrun.sim.settings import Mode

AT_ONCE = 10  # seeds per task of a process


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """Attributes:
    first, last: Seeds; last None: as many as there is time for.
    minutes: For so long at most.
    mode: None: each seed has its own.
    """

    first: int
    last: int | None = None
    minutes: float | None = None
    jobs: int = 8
    mode: Mode | None = None
    processes: int = 1


@dataclass(slots=True)
class Tally:
    """What some histories came to.

    Attributes:
        counts: Jobs, grants, losses and the like, over all of them.
        failed: What did not hold, by seed.
        modes: How many histories of each kind of installation.
    """

    histories: int = 0
    steps: int = 0
    lasted_s: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    modes: Counter[str] = field(default_factory=Counter)
    failed: dict[int, list[str]] = field(default_factory=dict)

    def add(self, other: Tally) -> None:
        self.histories += other.histories
        self.steps += other.steps
        self.lasted_s += other.lasted_s
        self.counts += other.counts
        self.modes += other.modes
        self.failed |= other.failed

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        failed = [{"seed": seed, "violations": found} for seed, found in sorted(self.failed.items())]
        return {
            "histories": self.histories,
            "steps": self.steps,
            "simulated_s": round(self.lasted_s, 3),
            "modes": dict(sorted(self.modes.items())),
            "counts": dict(sorted(self.counts.items())),
            "failed": failed,
        }


def run_seeds(seeds: range, jobs: int, mode: Mode | None) -> Tally:
    """Run histories in this process."""
    tally = Tally()
    for seed in seeds:
        try:
            report = run_seed(seed, jobs=jobs, mode=mode)
        except Exception as error:  # the simulator's own: the others shall be heard of, too
            tally.add(Tally(histories=1, failed={seed: [f"fault of the simulator: {in_words(error)}"]}))
            continue
        counts = Counter({name: count for name, count in report.counts.as_dict().items() if count})
        found = {seed: [str(violation) for violation in report.violations]} if report.violations else {}
        modes = Counter({report.plan.settings.mode.value: 1})
        tally.add(Tally(1, report.steps, report.lasted_s, counts, modes, found))
        if tally.histories == 1:
            gc.collect()
            gc.freeze()  # what was loaded stays: after each history only its own leavings are looked through
    return tally


def run_campaign(campaign: Campaign, clock: Clock, whole: Tally, *, tell: Callable[[], None] = lambda: None) -> None:
    """Run histories until the last seed, or the time is over.

    Args:
        whole: What they come to is added to it as they end.
        tell: Called each time that some have.

    Raises:
        KeyboardInterrupt: Somebody wants it to end; those that ran are in the tally.
    """
    until_ms = None if campaign.minutes is None else clock.boot_ms() + round(campaign.minutes * 60_000)
    slices = _slices(campaign)

    def more() -> range:
        return next(slices, range(0)) if until_ms is None or clock.boot_ms() < until_ms else range(0)

    if campaign.processes == 1:
        while seeds := more():
            whole.add(run_seeds(seeds, campaign.jobs, campaign.mode))
            tell()
        return
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(campaign.processes, spawn) as pool:
        running: set[Future[Tally]] = set()
        try:
            while True:
                while len(running) < campaign.processes and (seeds := more()):
                    with _out_of_earshot():
                        running.add(pool.submit(run_seeds, seeds, campaign.jobs, campaign.mode))
                if not running:
                    return
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for each in done:
                    whole.add(each.result())
                tell()
        except KeyboardInterrupt:
            for each in running:  # they have not heard of it, and end soon
                whole.add(each.result())
            raise


@contextmanager
def _out_of_earshot() -> Iterator[None]:
    """Processes that are started meanwhile do not hear of Ctrl-C: who started them tells them when to end."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _slices(campaign: Campaign) -> Iterator[range]:
    for start in itertools.count(campaign.first, AT_ONCE):
        stop = start + AT_ONCE if campaign.last is None else min(start + AT_ONCE, campaign.last + 1)
        if start >= stop:
            return
        yield range(start, stop)
