"""500 jobs end with one right answer each while workers are killed every second, and under every other fault.

Five storms: workers killed; the same without a memory of ended attempts; all faults mixed, at the surest and at the
weakest isolation; jobs so short that kills fall between result and message. The seed is printed: CHAOS_SEED repeats it.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from planrun.core.life import Reason, State
from tests.lab import Lab, WorkerProcess

RECEIVERS = ("app", "audit")


@dataclass(frozen=True, kw_only=True)
class Storm:
    """What happens to whom.

    Attributes:
        faults: Of `kill`, `term`, `freeze` (for two leases), `job` (its main process) and `launcher`, by chance.
        seconds: How long a job takes, at least and at most.
        worst: How many of 100 jobs may end exhausted.
        strikes_max: Then the storm is over; all its jobs still have to end.
    """

    jobs: int
    seed: int
    workers: int = 4
    faults: Sequence[str] = ("kill",)
    every_s: float = 1.0
    lease_s: float = 2.0
    seconds: tuple[float, float] = (0.5, 2.0)
    worst: float = 1.0
    strikes_max: int = 1_000_000
    timeout_s: float = 900
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class Fleet:
    """Workers that are struck by one fault after another, and replaced."""

    lab: Lab
    storm: Storm
    chance: random.Random
    standing: list[WorkerProcess] = field(default_factory=list)
    struck: dict[str, int] = field(default_factory=dict)
    _healing: set[asyncio.Task[None]] = field(default_factory=set)

    def start(self) -> None:
        self.standing.append(self.lab.start_worker(lease_s=self.storm.lease_s, **self.storm.options))

    def strike(self) -> None:
        """One random fault at one random worker."""
        if not self.standing or sum(self.struck.values()) >= self.storm.strikes_max:
            return
        fault, worker = self.chance.choice(self.storm.faults), self.chance.choice(self.standing)
        acts: dict[str, Callable[[WorkerProcess], None]] = {
            "kill": self._kill,
            "term": self._term,
            "freeze": self._freeze,
            "job": lambda worker: self._kill_one_of(worker.job_mains()),
            "launcher": lambda worker: self._kill_one_of(worker.launchers()),
        }
        acts[fault](worker)
        self.struck[fault] = self.struck.get(fault, 0) + 1

    async def calm(self) -> None:
        """Wait until the frozen go on and the terminated have ended."""
        await asyncio.gather(*self._healing)

    async def close(self) -> None:
        """A deploy that nobody follows: all workers end, with 0."""
        for worker in self.standing:
            await self.lab.ready_as(worker)
        for worker in self.standing:
            worker.signal(signal.SIGTERM)
        for worker in self.standing:
            assert await asyncio.to_thread(worker.wait) == 0, worker.text

    def _kill(self, worker: WorkerProcess) -> None:
        worker.kill()
        self.standing.remove(worker)
        self.start()

    def _term(self, worker: WorkerProcess) -> None:
        self.standing.remove(worker)
        self._later(self._ended_well(worker))
        self.start()

    async def _ended_well(self, worker: WorkerProcess) -> None:
        await self.lab.ready_as(worker)  # before that, an interpreter that is just starting may be killed by it
        worker.signal(signal.SIGTERM)
        assert await asyncio.to_thread(worker.wait) == 0, worker.text

    def _freeze(self, worker: WorkerProcess) -> None:
        self.standing.remove(worker)
        worker.signal(signal.SIGSTOP)
        self._later(self._thaw(worker))

    async def _thaw(self, worker: WorkerProcess) -> None:
        await asyncio.sleep(2 * self.storm.lease_s)
        worker.signal(signal.SIGCONT)
        self.standing.append(worker)

    def _later(self, healing: Any) -> None:
        task = asyncio.create_task(healing)
        self._healing.add(task)

    def _kill_one_of(self, pids: list[int]) -> None:
        if pids:
            os.kill(self.chance.choice(sorted(pids)), signal.SIGKILL)


async def weather(lab: Lab, storm: Storm) -> str:
    """Go through a storm, and check everything that must hold after it. Returns a line of numbers."""
    chance = random.Random(storm.seed)
    fleet = Fleet(lab, storm, chance)
    for _ in range(storm.workers):
        fleet.start()
    await lab.ready(storm.workers)
    routes = tuple(lab.receiver(name) for name in RECEIVERS)
    began = time.monotonic()
    jobs = await asyncio.gather(
        *[
            lab.submit(
                "render",
                {"bytes": chance.randrange(1_000, 200_000), "seconds": chance.uniform(*storm.seconds), "n": n},
                subscribers=routes,
            )
            for n in range(storm.jobs)
        ]
    )

    async def all_ended() -> bool:
        counts = await lab.ledger.counts(None)
        return counts["queued"] + counts["running"] == 0

    struck_at = time.monotonic()
    while not await all_ended():
        assert time.monotonic() < began + storm.timeout_s, f"not in time: {await lab.ledger.counts(None)}"
        if time.monotonic() >= struck_at + storm.every_s:
            struck_at = time.monotonic()
            fleet.strike()
        await asyncio.sleep(0.05)
    took_s = time.monotonic() - began
    await fleet.calm()
    await lab.delivered()
    await fleet.close()
    return f"{await aftermath(lab, jobs, storm)} in {took_s:.0f} s; faults: {fleet.struck or 'none'}"


async def aftermath(lab: Lab, jobs: Sequence[str], storm: Storm) -> str:
    """Everything that must hold once a storm is over."""
    assert lab.left_processes() == []
    await swept(lab)
    await lab.check(*jobs)
    await lab.check_answers(*RECEIVERS)
    await lab.collected()
    await lab.check(*jobs)
    assert len(lab.rows("SELECT * FROM result")) == len(jobs) == len(lab.rows("SELECT * FROM job"))
    starts = [(start.job_id, start.attempt) for start in lab.starts()]
    assert len(starts) == len(set(starts)), "an attempt was started twice"
    granted = set(lab.rows("SELECT job_id, attempt FROM attempt"))
    assert set(starts) <= granted
    exhausted = [row for row in [await lab.job(job_id) for job_id in jobs] if row.state is not State.FINISHED]
    for row in exhausted:
        await _explained(lab, row.job_id)
    assert len(exhausted) <= storm.worst / 100 * len(jobs), f"{len(exhausted)} of {len(jobs)} exhausted"
    return f"{len(jobs) - len(exhausted)} of {len(jobs)} finished, {len(granted)} attempts"


async def swept(lab: Lab) -> None:
    """The next worker that starts clears what dead ones have left: lock files, folders of spare processes."""
    last = lab.start_worker()
    await lab.ready_as(last)
    dead = {
        incarnation for incarnation, pid in lab.rows("SELECT incarnation, pid FROM worker") if pid != last.process.pid
    }

    def left() -> list[str]:
        folders = [lab.place.workers, lab.place.scratch / ".processes"]
        return [str(path) for folder in folders for path in folder.iterdir() if path.name in dead]

    async def alone() -> bool:
        return not left()

    try:
        await lab.until(alone, "dead workers leave nothing", timeout_s=60)
    except AssertionError:
        print("left:", left(), flush=True)
        raise
    last.signal(signal.SIGTERM)
    assert await asyncio.to_thread(last.wait) == 0, last.text


async def _explained(lab: Lab, job_id: str) -> None:
    """An exhausted job says which budget ran out, and what each attempt died of."""
    result, attempts = await lab.result(job_id), await lab.attempts(job_id)
    assert result.reason is Reason.EXHAUSTED, result
    assert result.error is not None
    for attempt in attempts:
        assert attempt.error is not None, attempt
        assert f"attempt {attempt.attempt} " in result.error.message
        assert attempt.error.message[:300] in result.error.message


def storms(seed: int, share: float) -> dict[str, Storm]:
    """The storms of a full run, or with fewer jobs."""
    jobs = max(20, round(500 * share))
    slots = {"slots": 2}
    mixed = ("kill", "term", "freeze", "job", "launcher")
    return {
        "kills": Storm(jobs=jobs, seed=seed, options=slots),
        "kills, dedup off": Storm(jobs=jobs, seed=seed + 1, options={**slots, "dedup_size": 0}),
        "all faults": Storm(jobs=jobs, seed=seed + 2, faults=mixed, worst=5, options=slots),
        "all faults, group": Storm(
            jobs=jobs, seed=seed + 3, faults=mixed, worst=5, options={**slots, "isolation": "group"}
        ),
        "short jobs": Storm(jobs=jobs, seed=seed + 4, seconds=(0, 0), every_s=0.3, options=slots),
    }


async def run(seed: int, share: float) -> None:
    for name, storm in storms(seed, share).items():
        with tempfile.TemporaryDirectory(prefix="planrun-chaos-") as folder:
            lab = Lab(Path(folder))
            try:
                print(f"{name} (seed {storm.seed}): {await weather(lab, storm)}", flush=True)
            finally:
                await lab.close()


def main(minutes: float | None) -> int:
    seed = int(os.environ.get("CHAOS_SEED", "0")) or random.SystemRandom().randrange(1, 1_000_000)
    print(f"CHAOS_SEED={seed}", flush=True)
    asyncio.run(run(seed, 1.0 if minutes is None else min(1.0, minutes / 20)))
    return 0
