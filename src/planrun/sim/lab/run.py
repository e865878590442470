"""One run of the lab: the settings as a script for the simulated world, and what was seen there."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from importlib import resources

import apsw

from planrun.sim.jobs import Deed
from planrun.sim.lab.drawing import history_of
from planrun.sim.lab.history import History, Lane, What
from planrun.sim.lab.settings import Fault, Moment, Settings
from planrun.sim.lab.stage import IN_UPLOAD, LabBoxWorker, LabFleetWorker, LabReceiver, LabStore
from planrun.sim.lab.watching import Watch
from planrun.sim.machines import Worker
from planrun.sim.net import Fate
from planrun.sim.settings import Mode, Order
from planrun.sim.settings import Settings as Made
from planrun.sim.world import World

A, B, APP, HUB, BROKER = "w1", "w2", "app", "orchestrator", "broker"
TOKEN_FIRST = 33
STARTS_AT_S = {A: 1.0, B: 3.0}  # by then whoever they ask is there; and A is to take the job
SUBMIT_AT_S = 2.0
END_S = 600
HEARS_S_MAX = 60  # behind the end of the job: so long it may take until the last worker has heard of it
A_MOMENT_S = 0.001  # where two things fall on one moment, the fault comes first
RENEWS = ("renew", "beat")  # by asking, and by a word over the broker
PLACES = {Moment.UPLOAD: IN_UPLOAD, Moment.SETTLE: "settle:before", Moment.REPLY: "settle:answered"}


def run(settings: Settings) -> History:
    """Run it to its end. Equal settings give equal histories."""
    world = LabWorld(settings)
    try:
        with world:
            world.run()
            until_s = world.loop.now_s + HEARS_S_MAX
            # A world in which something does not hold stands still.
            while world.watch.is_open and world.loop.now_s < until_s and not world.checks.violations:
                world.run(until_s=world.loop.now_s + 1)
    finally:
        world.watch.close()
    # Who renews too rarely may begin anew for ever: that is shown, and no promise of planrun's, which renews in time.
    broken = [each for each in world.checks.violations if not (settings.is_hopeless and each.rule.startswith("L"))]
    if broken:
        raise AssertionError(f"planrun broke a promise in {settings}: {broken}")
    return history_of(world.watch.facts, settings)


class LabWorld(World):
    """Worker A, worker B, one job, and one fault.

    It has no delays of its own: every second of a run is one that somebody chose.
    """

    def __init__(self, lab: Settings) -> None:
        made = Made(
            mode=Mode.FLEET if lab.is_fleet else Mode.BOX,
            orders=(Order(n=1, at_s=SUBMIT_AT_S),),
            deed_of=self._deed,
            lease_s=lab.lease_s,
            upload_s=(lab.upload_s, lab.upload_s),
            start_s=(0, 0),
            commit_s=(0, 0),
            trip_s=(0, 0),
            restart_s=lab.for_s,
            end_s=END_S,
        )
        super().__init__(lab.seed, made, traced=False)
        self.lab = lab
        self._is_struck = False
        self._begin_tokens_at(TOKEN_FIRST)
        self.watch = Watch(self, owner=HUB if lab.is_fleet else APP)
        self.watch.on_first_grant = self._arm
        self._furnish()

    def _furnish(self) -> None:
        """Put the lab's parties in the place of the world's."""
        tell, check = self.watch.tell, self.disk.on_commit
        self.store = LabStore(self, self.lab, tell, is_late=self.watch.is_late)
        for name in (A, B):
            own = self.machines[name]
            assert isinstance(own, Worker)
            self.machines[name] = (LabFleetWorker if self.lab.is_fleet else LabBoxWorker)(own, self.lab, tell)
        for machine in self.machines.values():
            machine.hardware.rate = 1.0
        self.receiver = LabReceiver(self.receiver, tell)
        self.machines[self.receiver.name] = self.receiver
        for name, at_s in STARTS_AT_S.items():
            self.machines[name].is_wanted = False
            self.at(at_s, partial(self._let_in, name))

        def committed(about: Iterable[str] | None) -> None:
            check(about)
            self.watch.committed()

        self.disk.on_commit = committed

    def _let_in(self, name: str) -> None:
        self.machines[name].is_wanted = True
        self.machines[name].start()

    def _begin_tokens_at(self, n: int) -> None:
        """The ledger has given out the tokens before this one."""
        next_n = (resources.files("planrun.ledger") / "sql" / "sqlite" / "next_n.sql").read_text()
        connection = apsw.Connection(str(self.disk.path))
        for _ in range(1, n):
            connection.execute(next_n).fetchall()
        connection.close()

    def _deed(self, n: int, attempt: int) -> Deed:
        return Deed(runs_s=self.lab.job_a_s if self.loop.current.name == A else self.lab.job_b_s)

    def _fate(self, who: str, whom: str, what: str) -> Fate:
        if who == A and what in RENEWS and self.net.is_cut(who, whom):
            self.watch.tell(Lane.A, What.UNHEARD)
        return super()._fate(who, whom, what)

    # --- the fault ---

    def _arm(self) -> None:
        """A has its lease: from here the seconds count."""
        lab = self.lab
        if lab.fault is not Fault.NONE and lab.moment is Moment.TIME:
            self.at(self.loop.now_s + max(0.0, lab.at_s - A_MOMENT_S), self._strike)

    def at_trip(self, place: str) -> None:
        self.watch.passed(place)
        lab = self.lab
        is_here = self.loop.current.name == A and PLACES.get(lab.moment) == place
        if is_here and not self._is_struck and lab.fault is not Fault.NONE:
            if lab.fault is Fault.CRASH:
                self.crash(A, at=place)
            elif lab.fault is Fault.FREEZE:
                self.freeze(A, at=place, for_s=lab.for_s)
                self._lasts(Lane.A, What.FREEZE, What.THAW)
            else:
                self._strike()
            self._is_struck = True
        super().at_trip(place)

    def _strike(self) -> None:
        """Let it go wrong now."""
        now_s, for_s = self.loop.now_s, self.lab.for_s
        match self.lab.fault:
            case Fault.FREEZE:
                self._lasts(Lane.A, What.FREEZE, What.THAW)
                self.freeze(A, at_s=now_s, for_s=for_s)
            case Fault.CRASH:
                self.machines[A].crash()
            case Fault.DEPLOY:
                self.deploy(A, at_s=now_s)
            case Fault.VM_PAUSE:
                self._lasts(Lane.A, What.FREEZE, What.THAW)
                self.pause_machine(A, at_s=now_s, for_s=for_s)
            case Fault.ORCHESTRATOR:
                self._lasts(Lane.LEDGER, What.FREEZE, What.THAW)
                self.freeze(HUB, at_s=now_s, for_s=for_s)
            case Fault.LINK:
                self._lasts(Lane.A, What.CUT, What.HEAL)
                for whom in (HUB, BROKER):
                    self.cut(A, whom, from_s=now_s, until_s=now_s + for_s)
            case Fault.NONE:
                pass

    def _lasts(self, lane: Lane, begins: What, ends: What) -> None:
        self.watch.tell(lane, begins)
        self.at(self.loop.now_s + self.lab.for_s, lambda: self.watch.tell(lane, ends))
