"""What a run says in the end, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from planrun.core.life import Outcome, State
from planrun.verify.observer import Count, Wrong
from planrun.verify.plan import Blow

SHOWN_MAX = 20

DONE = {
    Blow.KILL: "workers killed (SIGKILL)",
    Blow.JOB: "job processes killed alone",
    Blow.FREEZE: "workers frozen past their lease",
    Blow.LATE: "workers frozen while storing a result",
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


def never_done(done: Mapping[str, int], count: Count) -> Iterator[str]:
    """What the run was there for and did not come to."""
    for blow, words in DONE.items():
        if done.get(blow.value) == 0:
            yield f"{words}: it never came to that; a longer run may (--minutes)"
    if not count.late_files:
        yield "late files: no attempt that lost its job had stored anything, so nothing could be read by mistake"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Attributes:
    workers, slots, lease_s: Of the run's own.
    processes: Worker processes that were started in all.
    done: How often each fault happened.
    canceled: How many jobs were told to end early.
    tells: Whether messages were asked for.
    not_tried: What this installation, or this caller, could not be asked to do, or the run did not come to, and why.
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
    def untested(self) -> str:
        """Why it says nothing that nothing is wrong; empty: it does."""
        if not sum(self.done.values()):
            return "no fault happened"
        if not self.count.takeovers:
            return "no job was taken over from a worker that was hit"
        return "" if self.count.ended.get(State.FINISHED) else "no job finished"

    @property
    def held(self) -> bool:
        return not self.wrongs and not self.untested

    @property
    def verdict(self) -> str:
        """One line."""
        count = self.count
        if self.wrongs:
            return (
                f"BROKEN: {count.lost} lost, {count.doubled} doubled, {count.overwritten} overwritten, "
                f"{count.wrong} otherwise wrong, of {count.jobs} jobs"
            )
        if self.untested:
            return f"nothing was tested: {self.untested}; give it more time or jobs (--minutes, --jobs)"
        gave_up = f", {count.gave_up} of them given up after too many faults" if count.gave_up else ""
        return (
            f"held: {count.jobs} jobs were started {count.starts} times under {sum(self.done.values())} faults, and "
            f"each ended once{gave_up}; nothing lost, doubled or overwritten"
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
        yield "answers", f"{count.told} told to {count.asked} who waited"
        yield "results", f"{count.results} files read when they were announced, and again at the end"
        read = f"{count.late_read} of them named in an answer" if count.late_read else "no answer names one"
        late = f"{count.late_files}, stored by {count.late_attempts} attempts that lost their job; {read}"
        yield "late files", late if count.late_files else "none"
        if self.tells:
            each = "one for each job" if count.messages == count.jobs else f"of {count.jobs} that were owed"
            copies = f"; {count.repeats} came again" if count.repeats else ""
            yield "messages", f"{count.messages}, {each}{copies}"
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
