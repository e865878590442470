"""What goes wrong in a history: drawn from its seed, as a script that could have been written by hand.

Each seed draws which kinds of faults there are at all, and how often: a fault that hides another one is then missing
in some histories. After a while nothing is broken any more, and all must come to its end.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from planrun.core.life import Outcome
from planrun.sim.jobs import Deed
from planrun.sim.script import Act
from planrun.sim.settings import Mode, Order, Settings, deeds
from planrun.sim.zombies import Zombies

BOX_TRIPS = (
    "grant:asking",
    "grant:answered",
    "grant:acknowledged",
    "job:done",
    "fence:after-check",
    "settle:before",
    "settle:answered",
    "ledger:before-commit",
    "outbox:taken",
    "outbox:sent",
    "outbox:confirmed",
)


HUB_TRIPS = (
    "ledger:before-commit",
    "closing:found",
    "closing:stands",
    "closing:said",
    "mark:written",
    "generation:taken",
    "generation:entered",
    "outbox:taken",
    "outbox:sent",
    "outbox:confirmed",
)
RECOVERY_TRIPS = ("recovery:read", "recovery:adopted", "recovery:ended")
WORKER_TRIPS = tuple(place for place in BOX_TRIPS if place.partition(":")[0] not in ("ledger", "outbox"))
WORDS = (
    "submit", "grant_first", "settle", "standing", "release", "checkpoint", "renew", "stopped", "register", "cancel",
    "offer", "beat", "mark", "tell", "deliver", "answer", "begin epoch",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plan:
    """One history before it is run.

    Attributes:
        table: What the jobs do that do not just succeed, by number and attempt.
    """

    seed: int
    settings: Settings
    acts: tuple[Act, ...]
    table: dict[tuple[int, int], Deed] = field(default_factory=dict)


class Draw:
    """The chance of one seed, with the kinds of faults that it has."""

    def __init__(self, seed: int, jobs: int, mode: Mode | None, sure: Collection[str] = ()) -> None:
        self.sure = sure
        self.chance = random.Random(f"{seed} plan")
        self.more = random.Random(f"{seed} disasters")  # of its own: what came later changes no plan of before
        self.seed = seed
        self.jobs = jobs
        self.mode = mode or self.chance.choice((Mode.BOX, Mode.FLEET))
        self.is_fleet = self.mode is Mode.FLEET
        self.lease_s = self.chance.choice((6, 6, 12, 12, 20))
        self.honest_s = self.chance.choice((10, 20, 40))
        self.workers = self.chance.choice((2, 2, 3))

    def plan(self) -> Plan:
        chance = self.chance
        table = self._table()
        settings = Settings(
            mode=self.mode,
            workers=self.workers,
            slots=chance.choice((1, 1, 2)),
            lease_s=self.lease_s,
            orders=tuple(self._orders()),
            deed_of=deeds(table),
            upload_s=chance.choice(((0, 0), (0, 0.5), (0, 10))),
            commit_s=chance.choice(((0.0005, 0.003), (0.0005, 0.003), (0.001, 0.3))),
            trip_s=chance.choice(((0.001, 0.02), (0.001, 1.0))),
            stall_s=10,
            restart_s=chance.choice((0.2, 2, 10)),
            drain_grace_s=chance.choice((0, 0, 5)),
            proof_of_death=chance.random() < 0.7,
            strict=chance.random() < 0.6,
            lost=chance.choice((0, 0, 0.02, 0.2)),
            doubled=chance.choice((0, 0, 0.1)),
            gc_grace_s=10,
            is_cleaned=self.seed % 2 == 0,
            honest_s=self.honest_s,
            end_s=self.honest_s + 1500,
        )
        acts = [act for kind in self._kinds() for act in kind()]
        acts += Zombies(self.seed, settings, self.sure).acts()
        acts += self._disasters(settings.strict)
        return Plan(self.seed, settings, tuple(acts), table)

    # --- what is asked ---

    def _orders(self) -> Iterator[Order]:
        chance = self.chance
        joins, cancels, waits = chance.random() < 0.3, chance.random() < 0.3, chance.random() < 0.3
        for n in range(1, self.jobs + 1):
            kind = "encode" if chance.random() < 0.3 else "render"
            key = f"key-{n}" if joins and chance.random() < 0.4 else None
            order = Order(
                n=n,
                name=f"job-{n}",
                at_s=round(chance.uniform(0, self.honest_s * 0.6), 2),
                kind=kind,
                key=key,
                routes=chance.choice((1, 1, 2, 0)),
                max_attempts=chance.choice((4, 4, 2)),
                delay_s=round(chance.uniform(1, 20), 1) if waits and chance.random() < 0.2 else 0,
                deadline_s=round(chance.uniform(5, 60), 1) if waits and chance.random() < 0.2 else None,
                priority=chance.choice((0, 0, 5)),
                cancel_after_s=round(chance.uniform(0, 30), 2) if cancels and chance.random() < 0.4 else None,
            )
            yield order
            if key is not None:
                later_s = round(order.at_s + chance.uniform(0, 40), 2)
                yield Order(n=n, name=f"job-{n}-again", at_s=later_s, kind=kind, key=key, routes=1)

    def _table(self) -> dict[tuple[int, int], Deed]:
        chance = self.chance
        troubled = chance.random() < 0.5
        table = {}
        for n in range(1, self.jobs + 1):
            runs_s = round(chance.choice((0.2, chance.uniform(1, 4), chance.uniform(3, 12))), 2)
            every_s = chance.choice((0, 0, 2))
            for attempt in range(1, 7):
                end, dies = Outcome.SUCCESS, False
                if troubled and chance.random() < 0.3:
                    end = chance.choice((
                        Outcome.TRANSIENT, Outcome.TRANSIENT, Outcome.PERMANENT, Outcome.FATAL, Outcome.STALLED,
                    ))  # fmt: skip
                    dies = chance.random() < 0.3
                table[n, attempt] = Deed(
                    runs_s=runs_s, end=end, dies=dies, checkpoint_every_s=3, progress_every_s=every_s
                )
        return table

    # --- what goes wrong ---

    def _kinds(self) -> list[Callable[[], Iterator[Act]]]:
        kinds = [
            self._crashes, self._freezes, self._stops, self._deploys, self._lost_answers, self._store_away, self._cuts,
            self._machine, self._wall_clock, self._others_crash, self._lost_objects,
        ]  # fmt: skip
        if self.is_fleet:
            kinds += [self._hub, self._broker, self._words]
        return [kind for kind in kinds if self.chance.random() < 0.25 or kind.__name__[1:] in self.sure]

    def _times(self, most: int) -> Iterator[float]:
        for _ in range(self.chance.randint(1, most)):
            yield round(self.chance.uniform(0, self.honest_s), 3)

    def _worker(self) -> str:
        return f"w{self.chance.randint(1, self.workers)}"

    def _span(self) -> float:
        """Shorter or longer than a lease."""
        return round(self.lease_s * self.chance.choice((0.1, 0.5, 1.1, 2.5)), 2)

    def _crashes(self) -> Iterator[Act]:
        for at_s in self._times(6):
            yield Act("crash", {"name": self._worker(), "at_s": at_s})

    def _freezes(self) -> Iterator[Act]:
        for at_s in self._times(4):
            yield Act("freeze", {"name": self._worker(), "at_s": at_s, "for_s": self._span()})

    def _stops(self) -> Iterator[Act]:
        places = WORKER_TRIPS if self.is_fleet else BOX_TRIPS
        yield from self._stop_at([(self._worker(), place) for place in places])
        if self.is_fleet:
            yield from self._stop_at([("orchestrator", place) for place in HUB_TRIPS])

    def _stop_at(self, places: list[tuple[str, str]]) -> Iterator[Act]:
        for name, place in self.chance.sample(places, self.chance.randint(1, 4)):
            args = {"name": name, "at": place, "nth": self.chance.randint(1, 4)}
            if self.chance.random() < 0.5:
                yield Act("crash", args)
            else:
                yield Act("freeze", {**args, "for_s": self._span()})

    def _deploys(self) -> Iterator[Act]:
        for at_s in self._times(5):
            yield Act("deploy", {"name": self._worker(), "at_s": at_s})

    def _lost_answers(self) -> Iterator[Act]:
        for _ in range(self.chance.randint(1, 3)):
            way = self.chance.choice(("there", "back"))
            yield Act("lose", {"what": "answer", "way": way, "times": self.chance.randint(1, 3)})

    def _store_away(self) -> Iterator[Act]:
        for at_s in self._times(2):
            yield Act("store_away", {"from_s": at_s, "until_s": round(at_s + self._span(), 2)})

    def _cuts(self) -> Iterator[Act]:
        for at_s in self._times(3):
            pairs = [(self._worker(), "store"), (self._worker(), "receiver")]
            if self.is_fleet:
                pairs = [
                    (self._worker(), "store"), (self._worker(), "orchestrator"), (self._worker(), "broker"),
                    ("orchestrator", "broker"), ("orchestrator", "store"), ("orchestrator", "receiver"),
                    ("app", "orchestrator"), ("broker", "receiver"),
                ]  # fmt: skip
            who, whom = self.chance.choice(pairs)
            until_s = round(at_s + self._span(), 2)
            yield Act("cut", {"who": who, "whom": whom, "from_s": at_s, "until_s": until_s})
            if self.is_fleet and who.startswith("w") and self.chance.random() < 0.5:  # off the network altogether
                for other in ("store", "orchestrator", "broker"):
                    yield Act("cut", {"who": who, "whom": other, "from_s": at_s, "until_s": until_s})

    def _machine(self) -> Iterator[Act]:
        for at_s in self._times(2):
            name = self.chance.choice(("orchestrator", self._worker(), "app")) if self.is_fleet else "w1"
            match self.chance.choice(("suspend", "pause_machine", "reboot")):
                case "reboot":
                    yield Act("reboot", {"name": name, "at_s": at_s})
                case verb:
                    yield Act(verb, {"name": name, "at_s": at_s, "for_s": self._span()})

    def _wall_clock(self) -> Iterator[Act]:
        for at_s in self._times(2):
            by_s = self.chance.choice((-3600, -5, 5, 3600))
            name = self.chance.choice(("orchestrator", self._worker(), "app")) if self.is_fleet else "w1"
            yield Act("step_wall_clock", {"name": name, "at_s": at_s, "by_s": by_s})

    def _others_crash(self) -> Iterator[Act]:
        for at_s in self._times(3):
            yield Act("crash", {"name": self.chance.choice(("app", "receiver")), "at_s": at_s})

    def _hub(self) -> Iterator[Act]:
        for at_s in self._times(4):
            if self.chance.random() < 0.6:
                yield Act("crash", {"name": "orchestrator", "at_s": at_s})
            else:
                yield Act("freeze", {"name": "orchestrator", "at_s": at_s, "for_s": self._span()})

    def _broker(self) -> Iterator[Act]:
        for at_s in self._times(4):
            match self.chance.choice(("crash", "wipe_broker", "break_connections", "freeze")):
                case "crash":
                    yield Act("crash", {"name": "broker", "at_s": at_s})
                case "freeze":
                    yield Act("freeze", {"name": "broker", "at_s": at_s, "for_s": self._span()})
                case verb:
                    yield Act(verb, {"at_s": at_s})

    def _words(self) -> Iterator[Act]:
        for what in self.chance.sample(WORDS, self.chance.randint(1, 5)):
            way = self.chance.choice(("there", "back"))
            yield Act("lose", {"what": what, "way": way, "times": self.chance.randint(1, 3)})

    def _disasters(self, strict: bool) -> Iterator[Act]:
        more = self.more
        for verb in ("disk_full", "disk_errs", *(("broker_blocked",) if self.is_fleet else ())):
            if more.random() < 0.25:
                yield Act(verb, self._while())
        if more.random() < 0.25 or "cut_power" in self.sure:
            name = "orchestrator" if self.is_fleet else "w1"
            yield Act("cut_power", {"name": name, "at_s": self._moment(), "lost_s": more.choice((0.1, 1, 10))})

        if self.is_fleet and strict and (more.random() < 0.3 or "restore" in self.sure):
            yield self._restore()
            if more.random() < 0.5:
                yield Act("crash", {"name": "orchestrator", "at": more.choice(RECOVERY_TRIPS)})
        elif self.is_fleet and strict and more.random() < 0.3:
            yield Act("store_lies", self._while())

    def _restore(self) -> Act:
        """An operator who knows how the copy came about: that of `planrun backup` says by itself that it is old."""
        copied_s, at_s = sorted((self._moment(), self._moment()))
        is_backup = self.more.random() < 0.5
        recover_s = round(at_s + is_backup * self.more.choice((0, 5, 30)), 3)
        return Act("restore", {"copied_s": copied_s, "at_s": at_s, "recover_s": recover_s, "is_backup": is_backup})

    def _moment(self) -> float:
        return round(self.more.uniform(0, self.honest_s), 3)

    def _while(self) -> dict[str, float]:
        from_s = self._moment()
        return {"from_s": from_s, "until_s": round(from_s + self.lease_s * self.more.choice((0.1, 0.5, 1.1, 2.5)), 2)}

    def _lost_objects(self) -> Iterator[Act]:
        yield Act("lose_objects", {"times": self.chance.randint(1, 3)})


def draw(seed: int, *, jobs: int = 8, mode: Mode | None = None, sure: Collection[str] = ()) -> Plan:
    """The history of a seed, before it is run.

    Args:
        sure: Kinds of faults that it has in any case, such as `freezes`; the others by chance.
    """
    return Draw(seed, jobs, mode, sure).plan()
