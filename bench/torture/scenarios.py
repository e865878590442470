"""What is done to each peer: one job, a worker that runs it, an idle one beside it, and somebody who interferes.

A worker that has gone is started again by the same command, as its supervisor would: some peers' jobs wait for that.
Each returns what the observer counted, and what it alone can say: how long a worker took to end, for example.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from subprocess import Popen, TimeoutExpired

from bench.contender import Contender, Note, Unfit, end, family
from bench.peers.note import LONG, READY, STARTED, result_file
from bench.torture.history import Counted, count, running
from bench.torture.observer import Observer

BOOT_S = 60
INTO_S = 3  # so far into a job it is disturbed
DEPLOYS = 5
AT_MOST_S = 360  # after the disturbance
IDLE = 0  # the number of the small jobs by which an idle worker shows that it is there


@dataclass(frozen=True)
class Lengths:
    """In seconds.

    Attributes:
        job_s: A job that is killed or frozen.
        long_s: One that outlasts the grace of a deploy.
        longer_s: One that outlasts the broker's timeout.
        watch_s: How long something that does not come is waited for.
        settle_s: After the last thing that happened, another one is waited for so long.
        between_s: Between two deploys.
    """

    job_s: float = 20
    long_s: float = 60
    longer_s: float = 50
    watch_s: float = 90
    settle_s: float = 6
    between_s: float = 10


@dataclass
class Stage:
    contender: Contender
    observer: Observer
    lengths: Lengths
    disturbed_s: float = 0
    said: dict[str, str] = field(default_factory=dict)
    _commands: list[list[str]] = field(default_factory=list)
    _workers: dict[Popen[bytes], list[str]] = field(default_factory=dict)
    _watching: Popen[bytes] | None = None

    def begin(self, job_s: float, *, idle: bool = True) -> Popen[bytes]:
        """Submit the job; once it runs, start another worker. Returns the one that runs it."""
        self._commands = self.contender.ask("workers", 2)
        first = self.start(self._commands.pop())
        self.contender.ask("long", LONG, job_s)
        self._watching = self.contender.watch(LONG)
        if not self.wait_note(STARTED, timeout_s=BOOT_S):
            raise Unfit(f"{self.contender.peer.name}: its worker starts nothing\n{self.contender.last_words()}")
        if idle:
            self.start_shown(self._commands.pop())
            time.sleep(max(0, self.starts()[0].at_s + INTO_S - time.monotonic()))
        return first

    def start_shown(self, command: list[str]) -> Popen[bytes]:
        """A worker that has shown that it is there, by the start of a small job, or of the one that was left."""
        before = len(self.contender.starts())
        worker = self.start(command)
        self.contender.ask("submit", 1)
        if not self.contender.wait_until(lambda: len(self.contender.starts()) > before, timeout_s=BOOT_S):
            raise Unfit(f"{self.contender.peer.name}: another worker starts nothing\n{self.contender.last_words()}")
        return worker

    def start(self, command: list[str]) -> Popen[bytes]:
        worker = self.contender.start_worker(command)
        self._workers[worker] = command
        return worker

    def supervise(self) -> None:
        """Start again what has gone."""
        for worker, command in list(self._workers.items()):
            if worker.poll() is not None:
                del self._workers[worker]
                self.start(command)

    def disturb(self) -> None:
        """Times are counted from here.

        Raises:
            Unfit: The job has ended before; the machine is too slow.
        """
        if not running(self.observer.history()):
            raise Unfit(f"{self.contender.peer.name}: its job ended before it was disturbed; try again with --job-s 30")
        self.disturbed_s = time.monotonic()

    def stop(self, worker: Popen[bytes]) -> threading.Thread:
        """As a deploy does: SIGTERM, and SIGKILL after the grace. The thread ends when it has gone."""
        began_s = time.monotonic()
        worker.send_signal(signal.SIGTERM)

        def finish() -> None:
            how = "left"
            try:
                worker.wait(self.contender.grace_s)
            except TimeoutExpired:
                how = "was killed"
                self.contender.kill(worker)
            self.said["worker"] = f"{how} after {time.monotonic() - began_s:.1f} s"

        finishing = threading.Thread(target=finish, daemon=True)
        finishing.start()
        return finishing

    def deploy(self, worker: Popen[bytes]) -> Popen[bytes]:
        """Returns the worker that takes its place, and its name, once it has gone."""
        self.stop(worker).join()
        return self.start_shown(self._workers.pop(worker))

    def settle(self, *, quiet_s: float | None = None, at_most_s: float = AT_MOST_S) -> None:
        """Until there is a result, nothing runs, and nothing has happened for a while; or in vain."""
        quiet_s = self.lengths.settle_s if quiet_s is None else quiet_s
        deadline_s = time.monotonic() + at_most_s
        while time.monotonic() < deadline_s:
            self.supervise()
            history = self.observer.history()
            still_s = time.monotonic() - max(self.disturbed_s, history[-1].at_s)
            if not running(history) and still_s > (self.lengths.watch_s if self.counted().lost else quiet_s):
                return
            time.sleep(0.2)

    def counted(self) -> Counted:
        """
        Raises:
            Unfit: Whoever looks at the peer's own store of results has ended.
        """
        keeps_results = bool(self.contender.peer.results)
        if keeps_results and self._watching and self._watching.poll() is not None:
            raise Unfit(f"{self.contender.peer.name}: its results cannot be read\n{self.contender.last_words()}")
        return count(self.observer.history(), since_s=self.disturbed_s, keeps_results=keeps_results)

    def spent(self) -> str:
        """What the peer says that it has counted against the job; else what it said to the attempt that ended it."""
        file = result_file(self.contender.folder, LONG)
        said = self.contender.ask("spent", LONG)
        return str(said or (json.loads(file.read_text())["spent"] if file.exists() else ""))

    def starts(self) -> list[Note]:
        return self.contender.starts(LONG)

    def wait_note(self, word: str, *, timeout_s: float, times: int = 1) -> bool:
        def seen() -> bool:
            return sum(note.word == word for note in self.observer.history()) >= times

        return self.contender.wait_until(seen, timeout_s=timeout_s, every_s=0.02)


def whole(stage: Stage) -> None:
    first = stage.begin(stage.lengths.job_s)
    stage.disturb()
    stage.contender.kill(first)
    stage.settle()


def child(stage: Stage) -> None:
    first = stage.begin(stage.lengths.job_s)
    runner = stage.observer.runner(stage.starts()[0])
    if runner == first.pid:
        stage.said["child"] = "is the worker"
    stage.disturb()
    end(runner)
    stage.settle()


def term(stage: Stage) -> None:
    first = stage.begin(stage.lengths.long_s)
    stage.disturb()
    stage.stop(first)
    stage.settle()
    stage.said["counted"] = stage.spent()


def freeze(stage: Stage) -> None:
    """In the moment between the work and the writing of its result; it thaws when another has ended the job."""
    first = stage.begin(stage.lengths.job_s)
    stage.wait_note(READY, timeout_s=BOOT_S)
    processes = family(first.pid)
    stage.disturb()
    for pid in processes:
        tell(pid, signal.SIGSTOP)
    stage.contender.wait_until(lambda: not stage.counted().lost, timeout_s=stage.lengths.watch_s)
    time.sleep(1)
    for pid in processes:
        tell(pid, signal.SIGCONT)
    stage.settle(quiet_s=2 * stage.lengths.settle_s)


def longer(stage: Stage) -> None:
    """Nobody interferes, but the clock: the job lasts longer than the broker waits for an acknowledgement."""
    stage.begin(stage.lengths.longer_s)
    stage.disturbed_s = stage.starts()[0].at_s
    stage.settle(quiet_s=30, at_most_s=3 * stage.lengths.longer_s)


def storm(stage: Stage) -> None:
    """Deploys of the only worker, one after the other, each within the one job."""
    worker = stage.begin(stage.lengths.long_s, idle=False)
    stage.disturb()
    for _ in range(DEPLOYS):
        began_s = time.monotonic()
        worker = stage.deploy(worker)
        time.sleep(max(0, began_s + stage.lengths.between_s - time.monotonic()))
    stage.settle()
    stage.said["counted"] = stage.spent()


def twice(stage: Stage) -> None:
    """The same operation is submitted three times: before it, while it runs, and after it."""
    stage.begin(stage.lengths.job_s)
    stage.disturb()
    stage.contender.ask("long", LONG, stage.lengths.job_s)
    stage.settle(quiet_s=1)
    stage.contender.ask("long", LONG, stage.lengths.job_s)
    stage.settle()


def tell(pid: int, word: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, word)


SCENARIOS: dict[str, Callable[[Stage], None]] = {
    each.__name__: each for each in (whole, child, term, freeze, longer, storm, twice)
}


def played(name: str, contender: Contender, lengths: Lengths) -> tuple[Counted, dict[str, str]]:
    """One scenario, from an empty queue.

    Raises:
        Unfit: It cannot be played with this peer here; says why.
    """
    contender.prepare(fresh=True)
    try:
        with Observer(contender, LONG) as observer:
            stage = Stage(contender, observer, lengths)
            SCENARIOS[name](stage)
            return stage.counted(), stage.said
    finally:
        contender.kill()
