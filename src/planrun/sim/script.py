"""What may be done to the parties of a world: said beforehand, or while it runs."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from planrun.sim.actor import Actor, Crash, Hardware
from planrun.sim.broker import Broker
from planrun.sim.checks import Checks
from planrun.sim.loop import SimLoop
from planrun.sim.machines import Machine, Worker
from planrun.sim.net import Fate, Net
from planrun.sim.store import SimStore

AFTER_S = 0.01


class Act(NamedTuple):
    """One line of a script: a method of `World`, and what it is called with."""

    verb: str
    args: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.verb}({', '.join(f'{name}={value!r}' for name, value in self.args.items())})"


@dataclass(slots=True)
class _Stop:
    """Attributes:
    nth: At which passing.
    for_s: How long the process is frozen there; None: it crashes.
    after_s: It goes on so long after somebody else got a job that it has, if that is earlier.
    """

    nth: int
    for_s: float | None
    after_s: float | None = None


class _Outliving(NamedTuple):
    """Who stands still until one of these jobs is given to somebody."""

    jobs: frozenset[str]
    after_s: float
    thaw: Callable[[], None]


@dataclass(slots=True)
class _Loss:
    """Attributes:
    way: `there` or `back`.
    times: How many more get lost.
    """

    what: str
    way: str
    times: int


@dataclass(slots=True)
class _Silence:
    """Attributes:
    nth: After which heartbeat.
    """

    nth: int
    by_s: float
    for_s: float


class Script:
    """Base of `World`: every act of a script.

    Attributes:
        busy_until_s: The script goes on until then.
        wall_stepped: Somebody has set a wall clock: by it the age of files is counted.
        clocks_stood: A machine was paused with all its clocks: its holder may believe what is no more.
    """

    loop: SimLoop
    net: Net
    store: SimStore
    checks: Checks
    broker: Broker
    machines: dict[str, Machine]

    def __init__(self, honest_s: float) -> None:
        self.busy_until_s = honest_s
        self.clocks_stood = self.wall_stepped = False
        self._stops: defaultdict[tuple[str, str], list[_Stop]] = defaultdict(list)
        self._losses: list[_Loss] = []
        self._silences: dict[str, _Silence] = {}
        self._outliving: list[_Outliving] = []
        self._forgets = 0
        self._spells: Counter[str] = Counter()  # how many of each kind go on at the moment

    def say(self, who: str, what: str) -> None:
        """Into the trace."""
        raise NotImplementedError

    def chance_of(self, name: str) -> random.Random:
        """A stream of chance of its own."""
        raise NotImplementedError

    def at(self, at_s: float, act: Callable[[], object]) -> None:
        """Do something at that moment; at once if it has passed."""
        self.busy_until_s = max(self.busy_until_s, at_s)
        self.loop.world.later(max(0.0, at_s - self.loop.now_s), act)

    def freeze(self, name: str, *, for_s: float, at_s: float | None = None, at: str = "", nth: int = 1) -> None:
        """Let the process of a party stand still, as SIGSTOP does, and go on later.

        Args:
            at_s: When; or
            at: At which place of the code (`planrun.trip`), and the how manieth time it gets there.
        """
        if at:
            self._stops[name, at].append(_Stop(nth, for_s))
        else:
            self.at(at_s or 0, lambda: self._freeze(self.machines[name].actor, for_s))

    def outlive(self, name: str, *, at: str, nth: int = 1, after_s: float, for_s: float) -> None:
        """Freeze a worker at that place until somebody else runs a job that it has, and a little longer.

        Args:
            after_s: So much longer.
            for_s: For so long, if nobody does.
        """
        self._stops[name, at].append(_Stop(nth, for_s, after_s))

    def crash(self, name: str, *, at_s: float | None = None, at: str = "", nth: int = 1) -> None:
        """Kill the process of a party. It is started again after `Settings.restart_s`. Args as for `freeze`."""
        if at:
            self._stops[name, at].append(_Stop(nth, None))
        else:
            self.at(at_s or 0, self.machines[name].crash)

    def deploy(self, name: str, *, at_s: float) -> None:
        """SIGTERM to a worker; a new one is started when it has ended."""
        machine = self.machines[name]
        assert isinstance(machine, Worker)
        self.at(at_s, machine.deploy)

    def suspend(self, name: str, *, at_s: float, for_s: float) -> None:
        """The machine of a party sleeps: nothing runs, the monotonic clock stands still, boottime runs on."""
        self.at(at_s, lambda: self._halt(name, for_s, sleeps=True))

    def pause_machine(self, name: str, *, at_s: float, for_s: float) -> None:
        """The virtual machine of a party is paused: nothing runs, and all its clocks stand still."""
        self.at(at_s, lambda: self._halt(name, for_s, sleeps=False))

    def reboot(self, name: str, *, at_s: float) -> None:
        """The machine of a party, with all that runs on it, is switched off and on."""
        self.at(at_s, lambda: self._reboot(self.machines[name].hardware))

    def step_wall_clock(self, name: str, *, at_s: float, by_s: float) -> None:
        """Somebody sets the wall clock of a party's machine."""

        def step() -> None:
            self.wall_stepped = True
            self.machines[name].hardware.wall_step_ms += round(by_s * 1000)
            self.say(name, f"has its wall clock set by {by_s:g} s")

        self.at(at_s, step)

    def cut(self, who: str, whom: str, *, from_s: float, until_s: float) -> None:
        """Two parties do not reach each other. On one box only the store and the receiver can be cut off."""
        pair = frozenset((who, whom))

        def cut() -> None:
            self.net.cuts[pair] += 1
            self.say("network", f"{who} and {whom} do not reach each other")

        def heal() -> None:
            self.net.cuts[pair] -= 1
            if not self.net.cuts[pair]:
                self.say("network", f"{who} and {whom} reach each other again")

        self.at(from_s, cut)
        self.at(until_s, heal)

    def lose(self, what: str, *, way: str = "there", times: int = 1) -> None:
        """The next words of a kind get lost: `answer`, to the receiver, and `upload`.

        In a fleet also the verbs of the ledger (`submit`, `grant_first`, `settle` …), and what goes over the broker:
        `offer`, `beat`, `mark`, `tell`, `deliver`.

        Args:
            way: `there`: nobody hears it; `back`: it is done, and not answered.
        """
        self._losses.append(_Loss(what, way, times))

    def fall_silent(self, name: str, *, nth: int = 1, by_s: float, for_s: float) -> None:
        """A worker of a fleet is off the network, from right after a heartbeat that says that it has a job.

        Args:
            nth: Which of those.
            by_s: So late it is confirmed.
            for_s: For so long.
        """
        self._silences[name] = _Silence(nth, by_s, for_s)

    def broker_blocked(self, *, from_s: float, until_s: float) -> None:
        """An alarm of the broker: it takes nothing of whoever publishes, and goes on delivering."""

        def block(is_blocked: bool) -> None:
            self.broker.is_blocked = is_blocked
            self.say("broker", "blocks whoever publishes" if is_blocked else "takes messages again")

        self.at(from_s, lambda: block(True))
        self.at(until_s, lambda: block(False))

    def lag_beats(self, *, at_s: float, by_s: float) -> None:
        """Heartbeats and markers that come then wait so long, in their order, before the orchestrator reads them."""
        self.at(at_s, lambda: self.broker.lag(by_s))

    def wipe_broker(self, *, at_s: float) -> None:
        """The broker loses all that planrun has there."""
        self.at(at_s, self.broker.wipe)

    def break_connections(self, *, at_s: float) -> None:
        """The broker loses all its connections, and nothing else."""
        self.at(at_s, self.broker.break_all)

    def lose_objects(self, *, times: int = 1) -> None:
        """The store forgets the next results that it takes, before anybody looks at them."""
        self._forgets += times

    def store_away(self, *, from_s: float, until_s: float) -> None:
        """Nobody reaches the store."""
        self._store_is("away", "nobody answers", from_s, until_s)

    def store_refuses(self, *, from_s: float, until_s: float) -> None:
        """The store is there, and takes no uploads."""
        self._store_is("refuses", "403", from_s, until_s)

    # --- inside ---

    def stops_at(self, actor: Actor, place: str) -> bool:
        """Is this process to be stopped there, now or later?"""
        return bool(self._stops[actor.name, place])

    def loses(self, what: str, way: str) -> bool:
        for loss in self._losses:
            if (loss.what, loss.way) == (what, way) and loss.times > 0:
                loss.times -= 1
                self.say("network", f"loses a word of {self.loop.current.name}: {what}, on the way {way}")
                return True
        return False

    def falls_silent(self, who: str, fate: Fate) -> None:
        """This worker sends a heartbeat."""
        silence, machine = self._silences.get(who), self.machines[who]
        if silence is None or not isinstance(machine, Worker) or machine.supervisor is None:
            return
        silence.nth -= bool(machine.supervisor.keeper.leases)
        if silence.nth > 0:
            return
        del self._silences[who]
        fate.back_s += silence.by_s
        from_s = self.loop.now_s + fate.there_s + fate.back_s + AFTER_S
        for whom in ("broker", "orchestrator"):
            self.cut(who, whom, from_s=from_s, until_s=from_s + silence.for_s)

    def stored(self, key: str) -> None:
        if self._forgets and "/jobs/" in key and key in self.store.objects and "film" in key:
            self._forgets -= 1
            self.say("store", f"forgets {key}")
            self.store.lose(key)
        if key in self.store.objects:
            self.say("store", f"has {key}")
        self.checks.stored(key)

    def _store_is(self, how: str, why: str, from_s: float, until_s: float) -> None:
        def begin() -> None:
            self._spells[how] += 1
            setattr(self.store, how, why)
            self.say("store", f"{how}: {why}")

        def end() -> None:
            self._spells[how] -= 1
            if not self._spells[how]:
                setattr(self.store, how, "")
                self.say("store", f"{how} no more")

        self.at(from_s, begin)
        self.at(until_s, end)

    def at_trip(self, place: str) -> None:
        actor = self.loop.current
        stops = self._stops[actor.name, place]
        if not stops or actor.is_dead:
            return
        for each in stops:
            each.nth -= 1
        stop = next((each for each in stops if each.nth <= 0), None)
        if stop is None:
            return
        stops.remove(stop)
        if stop.for_s is None:
            self.say(actor.name, f"is at {place}")
            self.machines[actor.name].crash()
            raise Crash
        self.say(actor.name, f"is at {place}")
        thaw = self._freeze(actor, stop.for_s)
        machine = self.machines[actor.name]
        if stop.after_s is not None and isinstance(machine, Worker) and machine.supervisor is not None:
            jobs = frozenset(lease.job_id for lease in machine.supervisor.keeper.leases)
            self._outliving.append(_Outliving(jobs, stop.after_s, thaw))
        self.loop.pause(0)

    def granted(self, job_id: str) -> None:
        """Somebody has got it: who had it before, and stands still, may go on."""
        for each in [each for each in self._outliving if job_id in each.jobs]:
            self._outliving.remove(each)
            self.loop.world.later(each.after_s, each.thaw)

    def _freeze(self, actor: Actor | None, for_s: float) -> Callable[[], None]:
        if actor is None or actor.is_frozen:
            return lambda: None
        self.say(actor.name, f"is frozen for {for_s:g} s")
        actor.is_frozen = True

        is_over = False

        def thaw() -> None:
            nonlocal is_over
            if not is_over and not actor.is_dead:
                actor.is_frozen = False
                self.say(actor.name, "goes on")
            is_over = True

        self.busy_until_s = max(self.busy_until_s, self.loop.now_s + for_s)
        self.loop.world.later(for_s, thaw)
        return thaw

    def _on(self, hardware: Hardware) -> list[Machine]:
        return [machine for machine in self.machines.values() if machine.hardware is hardware]

    def _halt(self, name: str, for_s: float, *, sleeps: bool) -> None:
        hardware = self.machines[name].hardware
        if hardware.stands:
            return
        self.say(hardware.name, f"{'is suspended' if sleeps else 'is paused'} for {for_s:g} s")
        hardware.stop(sleeps=sleeps)
        self.clocks_stood = self.clocks_stood or not sleeps

        def go_on() -> None:
            hardware.go_on()
            self.say(hardware.name, "goes on")

        self.busy_until_s = max(self.busy_until_s, self.loop.now_s + for_s)
        self.loop.world.later(for_s, go_on)

    def _reboot(self, hardware: Hardware) -> None:
        self.say(hardware.name, "is rebooted")
        for machine in self._on(hardware):
            machine.crash()
        hardware.boot()
