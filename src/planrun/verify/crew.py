"""The workers of a run: real processes of this installation, and what is done to them. Nobody else's is ever touched.

A process is signalled only while it is known to be one that was started here, or descends from one.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from planrun.clock import Clock
from planrun.core.errors import LedgerUnavailable, PlanrunError
from planrun.verify.kinds import NAMES
from planrun.verify.line import Line
from planrun.verify.plan import Blow, Strike
from planrun.verify.sight import Sight, Target
from planrun.verify.worker import WHOSE
from planrun.worker.tree import look_at_all

SIZE = 3
SLOTS = 2
LEASE_S = 3.0
READY_S = 60.0
LEAVES_WITHIN_S = 20.0
LOOK_EVERY_S = 0.1
TURN_LOOKS, TURN_LOOK_S = 20, 0.005
AIM_LOOK_S = 0.005
STORES_WITHIN_S = 1.0
ON_ITS_WAY_S = 0.1  # what a frozen worker has said already may still arrive
HELD_S_MAX = 10.0


@dataclass(frozen=True, slots=True)
class Post:
    """Where a worker stands, and its replacements after it.

    Attributes:
        url: Its way to the ledger.
        lines: What it reaches orchestrator and broker through; empty: they cannot be cut.
        environment: What it is told beside its arguments.
    """

    url: str
    environment: Mapping[str, str] = field(default_factory=dict)
    lines: Sequence[Line] = ()


@dataclass(eq=False)
class WorkerProcess:
    """One worker process. `is_hurt`: something is being done to it."""

    name: str
    post: Post
    process: subprocess.Popen[bytes]
    is_hurt: bool = False

    @property
    def lives(self) -> bool:
        return self.process.poll() is None


class Crew:
    """Starts workers, strikes them, and ends all of them."""

    def __init__(
        self,
        posts: Sequence[Post],
        *,
        name: str,
        folder: Path,
        options: Mapping[str, Any],
        environment: Mapping[str, str],
        sight: Sight,
        ready: Callable[[], Awaitable[set[str]]],
        holds_others_up: Callable[[], bool],
        clock: Clock,
    ) -> None:
        """
        Args:
            name: What the names of its workers begin with.
            folder: For their scratch and what they print.
            options: Of every worker, beside its name.
            environment: The same, beside what its post adds.
            ready: Names of the workers that the ledger calls ready.
            holds_others_up: Does somebody write to a ledger that others use, too? Nobody is left frozen with that.
        """
        self._posts = posts
        self._name = name
        self._folder = folder
        self._scratch = folder / "scratch"
        self._options = {"slots": SLOTS, "lease_s": LEASE_S, **options}
        self._environment = environment
        self._sight = sight
        self._ready = ready
        self._holds_others_up = holds_others_up
        self._clock = clock
        self._workers: list[WorkerProcess] = []
        self._started = 0
        self._healing: set[asyncio.Task[None]] = set()
        self.done: Counter[Blow] = Counter()

    @property
    def size(self) -> int:
        return len(self._posts)

    @property
    def started(self) -> int:
        """How many processes in all."""
        return self._started

    async def start(self) -> None:
        """Man every post, and wait until all take work.

        Raises:
            CrewLost: They do not.
        """
        for post in self._posts:
            self._man(post)
        await self._all_ready()

    async def can_spare(self, strike: Strike) -> list[WorkerProcess]:
        """Whom it may be done to now: nobody, unless another one is left to go on."""
        ready = await self._ready()
        fit = [worker for worker in self._workers if not worker.is_hurt and worker.name in ready and worker.lives]
        if len(fit) < 2 and strike.blow is not Blow.JOB:
            return []
        return [worker for worker in fit if worker.post.lines or strike.blow is not Blow.CUT]

    async def strike(self, strike: Strike) -> bool:
        """Do it to somebody, who runs a job if anybody does.

        Returns:
            False: nobody can be spared; or nobody runs a job, or stores a result, that was to be hit.
        """
        fit = await self.can_spare(strike)
        busy = [worker for worker in fit if self._jobs_of(worker)]
        hit = busy if busy or strike.blow is Blow.JOB else fit
        if not hit:
            return False
        worker = hit[int(strike.lot * len(hit))]
        match strike.blow:
            case Blow.KILL:
                self._end(worker)
                self._man(worker.post)
            case Blow.JOB:
                if not self._kill_a_job_of(worker):
                    return False
            case Blow.FREEZE:
                self._later(self._freeze(worker, strike.seconds))
            case Blow.LATE:
                if not await self._freeze_while_it_stores(fit, strike):
                    return False
            case Blow.DEPLOY:
                self._later(self._deploy(worker))
            case Blow.CUT:
                self._later(self._cut(worker.post, strike.seconds))
        self.done[strike.blow] += 1
        return True

    async def calm(self) -> None:
        """Let everything heal, and see that every post is manned.

        Raises:
            CrewLost: It is not.
        """
        await asyncio.gather(*self._healing)
        for post in self._posts:
            if not any(worker.post is post and worker.lives for worker in self._workers):
                self._man(post)
        await self._all_ready()

    async def close(self) -> None:
        """End every process that was started here: asked first, then killed."""
        for task in self._healing:
            task.cancel()
        await asyncio.gather(*self._healing, return_exceptions=True)
        living = [worker for worker in self._workers if worker.lives]
        for worker in living:
            worker.process.send_signal(signal.SIGCONT)
            worker.process.terminate()
        until_ms = self._clock.boot_ms() + LEAVES_WITHIN_S * 1000
        while self._clock.boot_ms() < until_ms and any(worker.lives for worker in living):
            await self._clock.sleep(LOOK_EVERY_S)
        for worker in self._workers:
            self._end(worker)

    def _man(self, post: Post) -> WorkerProcess:
        self._started += 1
        name = f"{self._name}-{self._started}"
        options = {**self._options, "name": name, "scratch": str(self._scratch)}
        command = [sys.executable, "-m", "planrun.verify.worker", post.url, json.dumps(options)]
        with (self._folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                command,
                env={**self._environment, **post.environment, WHOSE: str(os.getpid())},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for whoever runs this; the workers are ended one by one
            )
        worker = WorkerProcess(name, post, process)
        self._workers.append(worker)
        return worker

    def _end(self, worker: WorkerProcess) -> None:
        if worker.lives:
            worker.process.kill()
            worker.process.wait()

    async def _all_ready(self) -> None:
        until_ms = self._clock.boot_ms() + READY_S * 1000
        while True:
            ready = await self._ready()
            living = [worker for worker in self._workers if worker.lives]
            if len([worker for worker in living if worker.name in ready]) >= len(self._posts):
                return
            if len(living) < len(self._posts) or self._clock.boot_ms() > until_ms:
                raise CrewLost(f"workers do not start here, or end by themselves; one said last: {self._last_words()}")
            await self._clock.sleep(LOOK_EVERY_S)

    def _last_words(self) -> str:
        dumb = [worker for worker in self._workers if not worker.lives] or self._workers
        text = (self._folder / f"{dumb[-1].name}.log").read_text(errors="replace").strip()
        return text.splitlines()[-1] if text else "it said nothing"

    def _jobs_of(self, worker: WorkerProcess) -> list[int]:
        """Main processes of jobs that a worker runs now: its descendants whose folder is an attempt's."""
        everybody = [process for process in look_at_all() if process.alive]
        family = {worker.process.pid}
        while heirs := {process.pid for process in everybody if process.parent in family} - family:
            family |= heirs
        return sorted(pid for pid in family if self._is_in_an_attempt(pid))

    def _is_in_an_attempt(self, pid: int) -> bool:
        try:
            folder = Path(f"/proc/{pid}/cwd").readlink()
        except OSError:
            return False
        return folder.is_relative_to(self._scratch) and ".processes" not in folder.parts

    def _kill_a_job_of(self, worker: WorkerProcess) -> bool:
        """False: it had just ended."""
        for pid in self._jobs_of(worker):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                return True
        return False

    def _later(self, healing: Any) -> None:
        task = asyncio.create_task(healing)
        self._healing.add(task)
        task.add_done_callback(self._healing.discard)

    async def _freeze(self, worker: WorkerProcess, seconds: float) -> None:
        worker.is_hurt = True
        try:
            await self._stop(worker)
            await self._clock.sleep(seconds)
        finally:
            self._thaw(worker)

    def _thaw(self, worker: WorkerProcess) -> None:
        worker.process.send_signal(signal.SIGCONT)
        worker.is_hurt = False

    async def _freeze_while_it_stores(self, fit: Sequence[WorkerProcess], strike: Strike) -> bool:
        """Wait for a job of theirs whose code comes to its end, and stop its worker before the ledger has the answer.

        The lot says after which of its files: early ones leave an upload to be gone on with, the last one an answer.
        """
        by_name = {worker.name: worker for worker in fit}
        files = 1 + int(strike.lot * len(NAMES))
        seen = len(self._sight.done())
        until_ms = self._clock.boot_ms() + strike.patience_s * 1000
        async with self._sight.watching():
            while self._clock.boot_ms() < until_ms:
                done = self._sight.done()
                for note in done[seen:]:
                    target = self._sight.running.get((note.number, note.attempt))
                    worker = by_name.get(target.worker) if target is not None else None
                    if target is None or worker is None:
                        continue
                    if await self._caught(worker, target, files):
                        self._later(self._hold(worker, target, strike.seconds))
                        return True
                    files = 1  # that was too late
                seen = len(done)
                await self._clock.sleep(AIM_LOOK_S)
        return False

    async def _caught(self, worker: WorkerProcess, target: Target, files: int) -> bool:
        """Frozen with so many files stored, and the job still its own."""
        until_ms = self._clock.boot_ms() + STORES_WITHIN_S * 1000
        while await self._sight.stored(target) < files:
            if self._clock.boot_ms() > until_ms:
                return False
        worker.is_hurt = True
        await self._stop(worker)
        await self._clock.sleep(ON_ITS_WAY_S)
        if await self._still_holds(target):
            return True
        self._thaw(worker)
        return False

    async def _hold(self, worker: WorkerProcess, target: Target, seconds: float) -> None:
        """Until somebody else has the job, or it has ended: then its own end comes late."""
        try:
            await self._clock.sleep(seconds)
            until_ms = self._clock.boot_ms() + HELD_S_MAX * 1000
            while self._clock.boot_ms() < until_ms and await self._still_holds(target):
                await self._clock.sleep(LOOK_EVERY_S)
        finally:
            self._thaw(worker)

    async def _still_holds(self, target: Target) -> bool:
        try:
            return await self._sight.holds(target)
        except LedgerUnavailable:
            return True

    async def _stop(self, worker: WorkerProcess) -> None:
        """Once it does not have the turn to write; whoever else has it passes it on within a moment."""
        while True:
            worker.process.send_signal(signal.SIGSTOP)
            for _ in range(TURN_LOOKS):
                if not self._holds_others_up():
                    return
                await self._clock.sleep(TURN_LOOK_S)
            worker.process.send_signal(signal.SIGCONT)
            await self._clock.sleep(TURN_LOOK_S)

    async def _deploy(self, worker: WorkerProcess) -> None:
        """As a careful deploy does it: the next one stands before this one goes."""
        worker.is_hurt = True
        follower = self._man(worker.post)
        until_ms = self._clock.boot_ms() + READY_S * 1000
        while follower.name not in await self._ready() and self._clock.boot_ms() < until_ms:
            await self._clock.sleep(LOOK_EVERY_S)
        worker.process.terminate()

    async def _cut(self, post: Post, seconds: float) -> None:
        hurt = [worker for worker in self._workers if worker.post is post]
        for worker in hurt:
            worker.is_hurt = True
        for line in post.lines:
            line.cut()
        try:
            await self._clock.sleep(seconds)
        finally:
            for line in post.lines:
                line.heal()
            for worker in hurt:
                worker.is_hurt = False


class CrewLost(PlanrunError):
    """Workers of a run do not start, or are gone though nothing was done to them."""
