"""One simulated world: who is in it, and what may be done to them.

    with World(seed=1, settings=Settings(orders=(Order(n=1),), workers=2, lease_s=10)) as world:
        world.freeze("w1", at_s=3, for_s=20)              # the process stands still; its clocks run
        world.crash("w2", at="settle:before")             # it dies when it gets there (see `planrun.trip`)
        world.lose("answer", way="back", times=2)         # the next two answers arrive, and no confirmation does
        world.cut("w1", "store", from_s=2, until_s=9)
        world.run()
    assert not world.checks.violations
    print(world.trace)

Parties: `w1`, `w2` … (workers), `app` (hands jobs in), `receiver` (takes answers), `store`; in a fleet also
`orchestrator` and `broker`. Times are true seconds since the beginning. A script is said before `run`, or between two
calls of `run(until_s=…)`. The same seed, settings and script give the same trace, byte for byte.
"""

from __future__ import annotations

import gc
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

import apsw

from planrun import trip
from planrun.client.answer import Answer
from planrun.config import place_of
from planrun.core.names import job_id_of, token_shown
from planrun.ledger.contract import Ledger
from planrun.sim.actor import Actor, Hardware
from planrun.sim.broker import Broker
from planrun.sim.checks import Checks
from planrun.sim.disasters import Disasters
from planrun.sim.disk import Disk, scratch
from planrun.sim.findings import Violation
from planrun.sim.fleet import Hub
from planrun.sim.jobs import SimProcess
from planrun.sim.loop import SimLoop, Stuck
from planrun.sim.machines import App, BoxWorker, Machine, Receiver, Worker
from planrun.sim.net import Fate, Net
from planrun.sim.overhearing import Overhearing
from planrun.sim.remote import FleetApp, FleetWorker
from planrun.sim.settings import Mode, Settings
from planrun.sim.store import SimStore
from planrun.sim.trace import Line, Trace
from planrun.worker.keeper import Keeper

REST_S = 5.0  # it is looked so long whether anything still happens once all has ended
COLLECTED_S = 35.0  # once files of lost attempts may go, they have gone after so long, and what came late with them
STOPPED_S = 40.0  # and a lease: so long after a job's end its process is told to stop, given time for it, and killed
LOOK_S = 1.0
DOUBLED = ("offer", "tell", "deliver", "beat", "answer", "settle", "release", "grant_first", "renew", "submit")
DRIFT_MAX = 0.0005  # 500 ppm: what a clock that is disciplined may differ in its rate


class World(Disasters):
    """Attributes:
    settings: What it is made of.
    machines: Its parties by name.
    answers: What the application has heard, by the name of the order.
    namespaces: Those of all orders; every worker serves them.
    names: What the trace calls jobs, by their id.
    """

    def __init__(self, seed: int, settings: Settings, *, name: str = "", traced: bool = True) -> None:
        """
        Args:
            name: What the trace calls this history, such as the id of a scenario.
        """
        super().__init__(settings.honest_s)
        self.seed = seed
        names = [order.name or f"job-{order.n}" for order in settings.orders]
        orders = tuple(replace(order, name=name) for order, name in zip(settings.orders, names, strict=True))
        self.settings = replace(settings, orders=orders)
        self.trace = Trace() if traced else None
        self.loop = SimLoop(self.chance_of("order"))
        self._fates = self.chance_of("fates")
        self._overhearing = Overhearing(self.loop)
        self.names = {job_id_of(order.namespace, f"call-{order.name}"): order.name for order in orders}
        self.namespaces = tuple(sorted({"default", *(order.namespace for order in orders)}))
        self.folder = scratch() / f"{seed}"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        if name:
            self.say("scenario", name)
        self.answers: dict[str, Answer] = {}
        self.opened: list[Ledger] = []
        self.incarnations: dict[str, Worker] = {}
        self.machines: dict[str, Machine] = {}
        self._runs = 0
        self._processes: list[tuple[str, SimProcess, Actor]] = []
        self.store = SimStore(self.loop)
        self.store.on_write = self.stored
        self.store.upload_s = lambda: self._between(self.settings.upload_s)
        self.store.is_unheard = lambda: self.loses("upload", "back")
        self.store.is_reachable = lambda: not self.net.is_cut(self._who(), "store")
        self.net = Net(self.loop)
        self.net.fate_of = self._fate
        self.disk = Disk(self.loop, self.folder, commit_s=lambda: self._between(self.settings.commit_s))
        self.checks = Checks(self)
        self.disk.on_commit = self.checks.committed
        self.disk.stops_at = self.stops_at
        self.url = f"sqlite:///{self.disk.path}"
        self.place = place_of(self.url)
        self.receiver = Receiver(self, "receiver", Hardware(self.loop, "receiver"))
        self._join(self.receiver)
        if settings.mode is Mode.BOX:
            self._box()
        else:
            self._fleet()

    def _box(self) -> None:
        box = Hardware(self.loop, "box")
        for number in range(1, self.settings.workers + 1):
            self._join(BoxWorker(self, f"w{number}", box))
        self._join(App(self, "app", box))

    def _fleet(self) -> None:
        drift = self.chance_of("drift")

        def machine(name: str) -> Hardware:
            return Hardware(self.loop, name, rate=1 + drift.uniform(-DRIFT_MAX, DRIFT_MAX))

        self.broker = Broker(self, "broker", machine("broker"))
        self.hub = Hub(self, "orchestrator", machine("orchestrator"))
        self._join(self.broker)
        self._join(self.hub)
        for number in range(1, self.settings.workers + 1):
            self._join(FleetWorker(self, f"w{number}", machine(f"w{number}")))
        self._join(FleetApp(self, "app", machine("app")))

    def _join(self, machine: Machine) -> None:
        self.machines[machine.name] = machine

    def __enter__(self) -> Self:
        self._gc_was_on = gc.isenabled()
        gc.disable()  # whose `finally` runs when must not depend on how much memory was asked for
        self._overhearing.begin()
        trip.watch(self.at_trip)
        apsw.connection_hooks.append(self._opened)
        for name in sorted(self.machines):
            self.machines[name].start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        trip.watch(None)
        try:
            self.close()
        finally:
            apsw.connection_hooks.remove(self._opened)
            self._overhearing.end()
            if self._gc_was_on:
                gc.enable()

    # --- running ---

    def run(self, until_s: float | None = None) -> None:
        """Let it go on until then; else until all has come to rest, and look whether all is well then."""
        if until_s is not None:
            self._until(lambda: self.loop.now_s >= until_s, by_s=until_s)
            return
        settings = self.settings
        self._until(lambda: self.loop.now_s >= self.busy_until_s and self.checks.is_at_rest(), by_s=settings.end_s)
        rest_s = self.loop.now_s + REST_S
        self._until(lambda: self.loop.now_s >= rest_s, by_s=rest_s)
        if not self.checks.violations:
            self.checks.at_end()
        if not self.checks.violations:
            stopped_s = self.loop.now_s + settings.lease_s + STOPPED_S
            self._until(lambda: not self.running() or self.loop.now_s >= stopped_s, by_s=stopped_s)
            self.checks.stopped_at_end(self.running())
        if settings.is_cleaned and not self.wall_stepped and not self.checks.violations:
            gone_s = self.loop.now_s + settings.gc_grace_s + COLLECTED_S
            self._until(lambda: self.loop.now_s >= gone_s, by_s=gone_s)
            self.checks.files_at_end()

    def _until(self, is_done: Callable[[], bool], *, by_s: float) -> None:
        """Looked at now and then, and at once after a violation."""
        over = False

        def look() -> None:
            nonlocal over
            over = is_done() or self.loop.now_s >= by_s
            if not over:
                self.loop.world.later(min(LOOK_S, max(0.001, by_s - self.loop.now_s)), look)

        self.loop.world.soon(look)
        try:
            self.loop.run_until(lambda: over or bool(self.checks.violations) or bool(self.loop.mishaps))
        except Stuck as error:
            self.checks.violations.append(Violation("L1", str(error), self.loop.now_s))
        self.loop.look_at_tasks()
        for mishap in self.loop.mishaps:
            self.checks.violations.append(Violation("fault", mishap, self.loop.now_s))
        self.loop.mishaps = []

    # --- what the parties use ---

    def chance_of(self, name: str) -> random.Random:
        """A stream of chance of its own, so that one more draw here changes nothing there."""
        return random.Random(f"{self.seed} {name}")

    def say(self, who: str, what: str, *, job: str = "", attempt: int | None = None, token: int | None = None) -> None:
        """Into the trace, if there is one. Jobs and workers are called by their names there."""
        if self.trace is not None:
            what = what.replace(f"{self.folder}/", "")  # it has another name each time
            shown = None if token is None else token_shown(token)
            self.trace.lines.append(Line(self.loop.now_s, who, what, self.names.get(job, job), attempt, shown))

    def start_s(self) -> float:
        """How long the next job process takes to start."""
        return self._between(self.settings.start_s)

    def trip_s(self) -> float:
        """How long the next word takes over the network."""
        return self._between(self.settings.trip_s)

    def bytes_of(self, n: int, attempt: int) -> bytes:
        """What the job code leaves in its file: never twice the same, as real encoders do."""
        self._runs += 1
        return f"job {n}, attempt {attempt}, run {self._runs}".encode()

    def began(self, job_id: str, process: SimProcess) -> None:
        """A worker has a job process."""
        self._processes.append((job_id, process, self.loop.current))

    def running(self) -> list[str]:
        """Jobs whose code runs somewhere. It dies with its worker."""
        return [job_id for job_id, process, worker in self._processes if process.runs and not worker.is_dead]

    def trusts_itself(self, incarnation: str, token: int) -> bool:
        """Does the holder of that lease believe that it still has it?"""
        keeper = self._keeper(incarnation)
        return keeper is not None and keeper.trusts(token)

    def holds(self, incarnation: str, token: int) -> bool:
        """Is somebody there who has not heard that this lease is over?"""
        keeper = self._keeper(incarnation)
        return keeper is not None and any(lease.token == token for lease in keeper.leases)

    # --- inside ---

    def _opened(self, connection: apsw.Connection) -> None:
        self.disk.opened(connection)

    def _keeper(self, incarnation: str) -> Keeper | None:
        machine = self.incarnations.get(incarnation)
        if machine is None or machine.actor is None or machine.incarnation != incarnation or machine.supervisor is None:
            return None
        return machine.supervisor.keeper

    def _who(self) -> str:
        return self.loop.current.name

    def _between(self, span: tuple[float, float]) -> float:
        least, most = span
        return least if most <= least else least + (most - least) * self._fates.random()

    def _fate(self, who: str, whom: str, what: str) -> Fate:
        fate = Fate(there_s=self.trip_s(), back_s=self.trip_s())
        settings = self.settings
        if (settings.lost or settings.doubled) and self.loop.now_s < settings.honest_s:
            fate.lost_there = self._fates.random() < settings.lost / 2
            fate.lost_back = self._fates.random() < settings.lost / 2
            if what in DOUBLED and self._fates.random() < settings.doubled:
                fate.doubled_s = self._fates.choice((0.01, 1, 30))
        if what == "beat":
            self.falls_silent(who, fate)
        fate.lost_there = self.loses(what, "there") or fate.lost_there
        fate.lost_back = (not fate.lost_there and self.loses(what, "back")) or fate.lost_back
        return fate

    def close(self) -> None:
        """End whoever is there, and remove what they left."""
        self.checks.close()
        self.loop.steps = 0  # also of a history that had taken too many
        janitor = self.loop.world
        for actor in [*self.loop.actors]:
            if actor is not janitor:
                self.loop.crash(actor)
        for ledger in self.opened:
            closing = janitor.spawn(ledger.close())
            self.loop.run_until(closing.done)
        self.loop.end()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder = Path()
