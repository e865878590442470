"""What is measured: one function per phase, each on a contender of its own and from an empty queue."""

from __future__ import annotations

import math
import signal
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from bench.contender import Contender, Unfit, alive, end, process_of
from bench.peers.note import LONG, SENT

BOOT_S = 40
STOPPED_S = 2  # after the second start, the process of the first is gone
FRESH_SHARE = 10  # a process per job: so many times fewer jobs, so much longer pauses
SLOTS_BATCHED = 10


@dataclass(frozen=True)
class Sizes:
    """How much of each.

    Attributes:
        jobs: Per run of a rate.
        drain_s: A rate is taken from the jobs that started within so long.
        spaced: Jobs of a latency run.
        gap_s: Mean pause between them.
        long_s: Length of the job that is interrupted.
        watch_s: How long its second start is waited for.
    """

    jobs: int = 1500
    drain_s: float = 20
    spaced: int = 300
    gap_s: float = 0.06
    long_s: float = 60
    watch_s: float = 90


@dataclass(frozen=True)
class Measured:
    """One run. `value` is None if there was none: the remark says what happened instead."""

    value: float | None
    more: dict[str, float] = field(default_factory=dict)
    remark: str = ""


@dataclass(frozen=True)
class Phase:
    name: str
    unit: str
    more_is_better: bool
    what: str
    run: Callable[[Contender, Sizes], Measured]


def submit(contender: Contender, sizes: Sizes) -> Measured:
    contender.prepare()
    return Measured(contender.ask("submit", sizes.jobs))


def bulk(contender: Contender, sizes: Sizes) -> Measured:
    contender.prepare()
    rate = contender.ask("bulk", 2 * sizes.jobs)
    return Measured(rate, remark="" if rate else "has no call for many")


def drain(contender: Contender, sizes: Sizes, *, workers: int, slots: int = 1, fresh: bool = False) -> Measured:
    """All jobs are stored before the workers start. The rate between the 10th and the 95th percentile of starts.

    Beside it the CPU time of the workers per job, which a busy machine changes less than the rate.
    """
    jobs = sizes.jobs // FRESH_SHARE if fresh else sizes.jobs
    contender.prepare(slots=slots, fresh=fresh)
    if contender.ask("bulk", jobs) is None:
        contender.ask("submit", jobs)
    contender.start_workers(workers)
    contender.wait_until(contender.starts, timeout_s=BOOT_S)
    booted, cpu_s = len(contender.starts()), contender.cpu_s()
    contender.wait_until(lambda: len(contender.starts()) >= jobs, timeout_s=sizes.drain_s, every_s=0.1)
    cpu_s = contender.cpu_s() - cpu_s
    at_s = sorted(note.at_s for note in contender.starts())
    contender.kill()
    if len(at_s) < 10:
        return Measured(None, remark=f"{len(at_s)} starts in {sizes.drain_s:g} s")
    low, high = len(at_s) // 10, len(at_s) * 95 // 100
    each_ms = 1000 * cpu_s / max(1, len(at_s) - booted)
    return Measured((high - low) / (at_s[high] - at_s[low]), {"cpu_ms": each_ms, "starts": len(at_s)})


def latency(contender: Contender, sizes: Sizes, *, fresh: bool = False) -> Measured:
    """From the moment before the submit call to the first line of job code, on an idle worker. The median."""
    jobs, gap_s = (sizes.spaced // FRESH_SHARE, sizes.gap_s * FRESH_SHARE) if fresh else (sizes.spaced, sizes.gap_s)
    contender.prepare(fresh=fresh)
    contender.start_workers(1)
    contender.ask("submit", 1)
    if not contender.wait_until(contender.starts, timeout_s=BOOT_S):
        raise Unfit(f"{contender.peer.name}: its worker starts nothing\n{contender.last_words()}")
    time.sleep(1)
    contender.forget()
    contender.ask("spaced", jobs, gap_s)
    contender.wait_until(lambda: len(contender.starts()) >= jobs, timeout_s=BOOT_S)
    contender.kill()
    sent = {note.number: note.at_s for note in contender.notes() if note.word == SENT}
    took_ms = sorted(1000 * (note.at_s - sent[note.number]) for note in contender.starts())
    if not took_ms:
        return Measured(None, remark="none started")
    p99 = took_ms[math.ceil(len(took_ms) * 0.99) - 1]
    return Measured(statistics.median(took_ms), {"p99": p99, "slowest": took_ms[-1], "jobs": len(took_ms)})


def interrupted(contender: Contender, sizes: Sizes, *, how: str) -> Measured:
    """From the signal to the second start of a long job; a second worker is idle."""
    contender.prepare(fresh=True)  # long jobs have a process of their own, where there is the choice
    contender.start_workers(1)
    contender.ask("long", LONG, sizes.long_s)
    if not contender.wait_until(lambda: contender.starts(LONG), timeout_s=BOOT_S):
        raise Unfit(f"{contender.peer.name}: its worker starts nothing\n{contender.last_words()}")
    first, (start, *_) = contender.workers[0], contender.starts(LONG)
    contender.start_workers(1)
    contender.ask("submit", 1)  # for the second worker, which shows by it that it is there
    contender.wait_until(lambda: len(contender.starts()) > 1, timeout_s=BOOT_S)
    time.sleep(max(1, 4 - (time.monotonic() - start.at_s)))
    runner = process_of(start, first)
    at_s = time.monotonic()
    match how:
        case "whole":
            contender.kill(first)
        case "child":
            end(runner)
        case _:
            first.send_signal(signal.SIGTERM)
    contender.wait_until(
        lambda: len(contender.starts(LONG)) > 1 or contender.ended(LONG), timeout_s=sizes.watch_s, every_s=0.005
    )
    starts, ends = contender.starts(LONG), contender.ended(LONG)
    twice = len(starts) > 1 and not contender.wait_until(lambda: not alive(runner), timeout_s=STOPPED_S)
    contender.kill()
    if len(starts) > 1:
        return Measured(starts[1].at_s - at_s, remark="beside the first run" if twice else "")
    if ends:
        return Measured(None, remark=f"waits for the job, {ends[0].at_s - at_s:.0f} s")
    return Measured(None, remark=f"not in {sizes.watch_s:g} s")


PHASES = {
    phase.name: phase
    for phase in (
        Phase("submit", "jobs/s", True, "one client, one by one, each call awaited", submit),
        Phase("bulk", "jobs/s", True, "the call for many, 1,000 in each", bulk),
        Phase("drain1", "jobs/s", True, "no-op jobs, one worker, one slot", lambda c, s: drain(c, s, workers=1)),
        Phase("drain2", "jobs/s", True, "no-op jobs, two workers, one slot each", lambda c, s: drain(c, s, workers=2)),
        Phase(
            "batched",
            "jobs/s",
            True,
            f"no-op jobs, one worker, {SLOTS_BATCHED} slots",
            lambda c, s: drain(c, s, workers=1, slots=SLOTS_BATCHED),
        ),
        Phase(
            "fresh",
            "jobs/s",
            True,
            "no-op jobs, one worker, a process for each job",
            lambda c, s: drain(c, s, workers=1, fresh=True),
        ),
        Phase("latency", "ms", False, "submit to start, idle box, warm; median", latency),
        Phase(
            "latency-fresh",
            "ms",
            False,
            "submit to start, idle box, a process for each job; median",
            lambda c, s: latency(c, s, fresh=True),
        ),
        Phase(
            "kill",
            "s",
            False,
            "SIGKILL of the whole worker to second start",
            lambda c, s: interrupted(c, s, how="whole"),
        ),
        Phase(
            "child",
            "s",
            False,
            "SIGKILL of the job's process to second start",
            lambda c, s: interrupted(c, s, how="child"),
        ),
        Phase("term", "s", False, "SIGTERM to second start", lambda c, s: interrupted(c, s, how="term")),
    )
}
SHORTHAND = {"drain": ("drain1", "drain2")}
