"""What a run says in the end, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from planrun.core.life import Outcome
from planrun.verify.observer import Count, Wrong
from planrun.verify.plan import Blow

SHOWN_MAX = 20

DONE = {
    Blow.KILL: "workers killed (SIGKILL)",
    Blow.JOB: "job processes killed alone",
    Blow.FREEZE: "workers frozen past their lease",
    Blow.DEPLOY: "workers replaced (SIGTERM)",
    Blow.CUT: "workers cut off the network",
}


OUTCOMES = {
    Outcome.SUCCESS: "succeeded",
    Outcome.PERMANENT: "failed for good",
    Outcome.TRANSIENT: "died alone",
    Outcome.FATAL: "found their worker broken",
    Outcome.STALLED: "stood still",
    Outcome.OVERTIME: "took too long",
    Outcome.LOST: "lost with a worker that was killed or silent",
    Outcome.RELEASED: "handed back",
    Outcome.CANCELED: "canceled",
}

BROKEN = {
    "lost": "jobs without an end, an answer, a message or their file",
    "doubled": "jobs with two ids, two answers, two messages, or an attempt that was started twice",
    "overwritten": "jobs whose stored bytes are not those that were announced",
    "wrong": "jobs that ended otherwise than they could",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Attributes:
    workers, slots, lease_s: Of the run's own.
    processes: Worker processes that were started in all.
    done: How often each fault happened.
    canceled: How many jobs were told to end early.
    tells: Whether messages were asked for.
    not_tried: What this installation, or this caller, could not be asked to do, and why.
    wrongs: Everything that must not be; empty: all held.
    folder: What was kept; empty: nothing.
    """

    namespace: str
    url: str
    seed: int
    seconds: float
    workers: int
    slots: int
    lease_s: float
    processes: int
    clients: int
    done: Mapping[str, int]
    canceled: int
    tells: bool
    not_tried: tuple[str, ...]
    count: Count
    wrongs: tuple[Wrong, ...]
    folder: str

    @property
    def held(self) -> bool:
        return not self.wrongs

    @property
    def verdict(self) -> str:
        """One line."""
        count = self.count
        if not self.held:
            return (
                f"BROKEN: {count.lost} lost, {count.doubled} doubled, {count.overwritten} overwritten, "
                f"{count.wrong} otherwise wrong, of {count.jobs} jobs"
            )
        return (
            f"held: {count.jobs} jobs were started {count.starts} times under {sum(self.done.values())} faults, and "
            f"each ended once; nothing lost, doubled or overwritten"
        )

    def what_was_done(self) -> Iterator[tuple[str, str]]:
        """Line by line, for people."""
        count = self.count
        yield "jobs", f"{count.jobs}, handed in {count.submits} times by {self.clients} clients; seed {self.seed}"
        yield (
            "workers",
            f"{self.workers} of its own with {self.slots} slots and a lease of {self.lease_s:g} s, namespace "
            f"{self.namespace}: {self.processes} processes in {self.seconds:.0f} s",
        )
        for blow, words in DONE.items():
            if blow.value in self.done:
                yield words, str(self.done[blow.value])
        yield "jobs told to end early", str(self.canceled)

    def what_came(self) -> Iterator[tuple[str, str]]:
        """Line by line, for people."""
        count = self.count
        yield "ended", ", ".join(f"{number} {end}" for end, number in count.ended.items())
        yield "starts", f"{count.starts}, as the jobs noted themselves; {count.takeovers} of them after an earlier one"
        yield "attempts", ", ".join(f"{number} {OUTCOMES[Outcome(end)]}" for end, number in count.outcomes.items())
        yield "results", f"{count.results} files read when they were announced, and again at the end"
        if self.tells:
            copies = f"; {count.repeats} came again, equal" if count.repeats else ""
            yield "messages", f"{count.messages}, one for each job{copies}"
        for what, means in BROKEN.items():
            yield what, f"{getattr(count, what)} {means}"

    def what_it_means(self) -> Iterator[str]:
        """Sentences, for people."""
        for wrong in self.wrongs[:SHOWN_MAX]:
            yield f"{wrong.what}: {f'job {wrong.job}: ' if wrong.job else ''}{wrong.why}"
        if len(self.wrongs) > SHOWN_MAX:
            yield f"and {len(self.wrongs) - SHOWN_MAX} more; --json has all of them"
        for text in self.not_tried:
            yield f"not tried: {text}"
