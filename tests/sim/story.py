"""A scenario of docs/internals/scenarios.md, told by a test: a simulated world, and what the row asks for of it.

    with Story("E1", seed, orders=(Order(n=1, delay_s=20, cancel_after_s=5),)) as story:
        story.run()
        assert story.job("job-1").state == "canceled"

Whatever the row asks for, a story ends well only where no rule was broken, and all has come to rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple

import pytest

from planrun.client.async_client import AsyncClient
from planrun.config import place_of
from planrun.core.errors import PlanrunError
from planrun.core.offers import Offer
from planrun.sim.actor import Hardware
from planrun.sim.disk import Copy, Disk, SimHand
from planrun.sim.fleet import Hub
from planrun.sim.jobs import Deed
from planrun.sim.machines import App, Worker
from planrun.sim.net import Fate
from planrun.sim.remote import FleetWorker
from planrun.sim.settings import SUCCEEDS, Mode, Settings
from planrun.sim.trace import Line
from planrun.sim.world import World

FULL = 2  # of SQLite's `synchronous`: a commit is on the disk before it is answered
FINDINGS_MAX = 8  # that one history is asked for
seeds = pytest.mark.parametrize("seed", range(1, 5))
few_seeds = pytest.mark.parametrize("seed", range(1, 3))  # of long histories


class Job(NamedTuple):
    """A job's row. Budgets as `failures`, `losses`, `handbacks`."""

    state: str
    reason: str | None
    attempt: int
    budgets: tuple[int, int, int]


class Attempt(NamedTuple):
    """An attempt's row."""

    attempt: int
    outcome: str | None
    stopped: int


class Event(NamedTuple):
    """A line of a job's history."""

    what: str
    attempt: int | None
    who: str
    detail: str


class Start(NamedTuple):
    """Job code that began to run."""

    n: int
    attempt: int
    at_s: float
    who: str


@dataclass
class Heard:
    """What somebody was told who asked for something: the answer, or why there is none."""

    answer: Any = None
    error: PlanrunError | None = None
    at_s: float | None = None


class _Nothing:
    """The queue of somebody who never writes. Implements `planrun.ledger.hands.Queue`."""

    def is_waiting(self) -> bool:
        return False

    def has_ended(self) -> bool:
        return True

    def drain(self) -> float:
        return 0

    def drain_here(self) -> None:
        pass


class Story(World):
    """Attributes:
    starts: All job code that began to run, in order.
    sent: All offers that reached the broker of a fleet, with their lanes.
    """

    def __init__(self, name: str, seed: int, **settings: Any) -> None:
        deed_of = settings.pop("deed_of", lambda n, attempt: SUCCEEDS)
        self.starts: list[Start] = []

        def noted(n: int, attempt: int) -> Deed:
            self.starts.append(Start(n, attempt, self.loop.now_s, self.loop.current.name))
            deed: Deed = deed_of(n, attempt)
            return deed

        self._waited_for: list[tuple[Callable[[], Any], Callable[[], None]]] = []
        self._places: dict[tuple[str, str], Callable[[], None]] = {}
        self._disk_error: Exception | None = None
        self._doubles: Counter[str] = Counter()
        self._late: list[tuple[str, float]] = []
        self._held_since_s: dict[tuple[str, int], float] = {}
        super().__init__(seed, Settings(deed_of=noted, **settings), name=name)
        self.sent: list[tuple[str, Offer]] = []
        if self.settings.mode is Mode.FLEET:
            self._put, self.broker.put = self.broker.put, self._note_offer  # type: ignore[method-assign]

    def __enter__(self) -> Story:
        super().__enter__()
        written = self.disk.on_commit

        def committed(about: Any) -> None:
            written(about)
            for wanted in [each for each in self._waited_for if each[0]()]:
                self._waited_for.remove(wanted)
                wanted[1]()

        self.disk.on_commit = committed
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        super().__exit__(kind, error, trace)
        if kind is None:
            assert not self.checks.violations, f"{self.checks.violations}\n{self.trace}"

    # --- the script ---

    def when(self, is_so: Callable[[], Any], act: Callable[[], None]) -> None:
        """Do something right after the commit with which that has become so, before anybody hears of it."""
        self._waited_for.append((is_so, act))

    def when_at(self, who: str, place: str, act: Callable[[], None]) -> None:
        """Do something when a party gets to that place of the code for the first time."""
        self._places[who, place] = act

    def ask(self, at_s: float, do: Callable[[AsyncClient], Awaitable[Any]]) -> Heard:
        """The application asks for something once, and says what it was told."""
        heard = Heard()
        app = self.machines["app"]
        assert isinstance(app, App)

        async def ask() -> None:
            try:
                heard.answer = await do(app.client)
            except PlanrunError as error:
                heard.error = error
            heard.at_s = self.loop.now_s

        def act() -> None:
            assert app.actor is not None
            app.actor.spawn(ask())

        self.at(at_s, act)
        return heard

    def ask_now(self, do: Callable[[AsyncClient], Awaitable[Any]]) -> Heard:
        """As `ask`, at this very moment."""
        return self.ask(self.loop.now_s, do)

    def crash_now(self, name: str) -> None:
        """Whatever it is doing at this moment, nobody hears of it."""
        self.machines[name].crash()

    def disk_fails(self, error: Exception, *, from_s: float, until_s: float) -> None:
        """Each commit of the ledger fails with that."""

        def fail(error: Exception | None) -> None:
            self._disk_error = error
            self.say("disk", f"fails: {error}" if error else "is well again")

        self.at(from_s, lambda: fail(error))
        self.at(until_s, lambda: fail(None))

    def stop_waiting(self, who: str, place: str) -> None:
        """Whatever was to be done there is not done any more."""
        self._places.pop((who, place), None)

    def double(self, what: str, times: int = 1) -> None:
        """The next words of a kind arrive twice."""
        self._doubles[what] += times

    def slow(self, what: str, *, by_s: float, times: int = 1) -> None:
        """The next words of a kind take so much longer on their way there."""
        self._late += [(what, by_s)] * times

    def join(self, name: str) -> None:
        """One more worker of a fleet, from now on."""
        worker = FleetWorker(self, name, Hardware(self.loop, name))
        self._join(worker)
        worker.start()

    def retire(self, name: str, *, at_s: float) -> None:
        """A worker is told to end, and not started again."""

        def retire() -> None:
            worker = self.machines[name]
            assert isinstance(worker, Worker)
            worker.is_wanted = False
            worker.deploy()

        self.at(at_s, retire)

    def _fate(self, who: str, whom: str, what: str) -> Fate:
        fate = super()._fate(who, whom, what)
        if self._doubles[what] > 0:
            self._doubles[what] -= 1
            self.say("network", f"doubles a word: {what} from {who} to {whom}")
            fate.doubled_s = 0.01
        late = next((each for each in self._late if each[0] == what), None)
        if late is not None:
            self._late.remove(late)
            fate.there_s += late[1]
        return fate

    def _note_offer(self, lane: str, offer: Offer) -> None:
        self.sent.append((lane, offer))
        self._put(lane, offer)

    def disk_busy(self, *, from_s: float, until_s: float) -> None:
        """Somebody else has the ledger's file, and nobody gets a turn to write."""
        somebody = SimHand(self.disk, self.loop.world, _Nothing())

        def take() -> None:
            assert self.disk.holder is None
            self.disk.holder = somebody
            self.say("disk", "is busy")

        self.at(from_s, take)
        self.at(until_s, lambda: self.disk.let_go(somebody))

    def find(self) -> set[str]:
        """Run to the end, whatever is broken on the way: which rules were."""
        found: set[str] = set()
        for _ in range(FINDINGS_MAX):
            self.run()
            if not self.checks.violations:
                break
            found |= {violation.rule for violation in self.checks.violations}
            self.checks.violations.clear()
        self.checks.violations.clear()
        return found

    def cut_power_now(self, name: str) -> None:
        """The machine that has the ledger goes dark, this very moment, and is booted again.

        A commit that need not reach the disk before it is answered is lost then, and all that came after it.
        """
        copies = self.disk.copies
        assert copies is not None
        lost = 0
        if any(self.pragma(ledger, "synchronous") != FULL for ledger in self.opened):
            lost = self.chance_of("power").randrange(len(copies))
        self._reboot(self.machines[name].hardware)
        self.say("disk", f"has lost {lost} commits")
        self.put_back(copies[len(copies) - 1 - lost])

    def fail_over(self, copy: Copy) -> None:
        """Another orchestrator recovers a copy of the ledger, and all words go to it. The old one lives, and has its
        own; what the story looks at from now on is the new one."""
        heard, self.disk.on_commit = self.disk.on_commit, lambda about: None
        folder = self.folder / "heir"
        folder.mkdir()
        self.disk = Disk(self.loop, folder, commit_s=self.disk.commit_s)
        self.disk.put_back(copy)
        self.disk.on_commit, self.disk.stops_at = heard, self.stops_at
        self.url = f"sqlite:///{self.disk.path}"
        self.place = place_of(self.url)
        self.checks.restored()
        self.hub = Hub(self, "heir", Hardware(self.loop, "heir"))
        self.hub.recovers = True
        self._join(self.hub)
        self.hub.start()

    def pragma(self, ledger: Any, name: str, *value: str) -> Any:
        """Of the connection by which a process writes its ledger."""
        return ledger._writer._connection.pragma(name, *value)

    def at_trip(self, place: str) -> None:
        act = self._places.pop((self.loop.current.name, place), None)
        if act is not None:
            act()
        if self._disk_error is not None and place == "ledger:before-commit":
            raise self._disk_error
        super().at_trip(place)

    # --- what came of it ---

    def id_of(self, name: str) -> str:
        """The job that an order made, if it made one."""
        return next(job_id for job_id, order in self.names.items() if order == name)

    def rows(self, text: str, *values: Any) -> list[tuple[Any, ...]]:
        return self.checks._rows(text, *values)

    def job(self, name: str) -> Job | None:
        """As it is now; None: there is none of that order's own."""
        text = "SELECT state, reason, attempt, failures, losses, handbacks FROM job WHERE job_id = ?"
        for state, reason, attempt, *budgets in self.rows(text, self.id_of(name)):
            return Job(state, reason, attempt, (budgets[0], budgets[1], budgets[2]))
        return None

    def attempts(self, name: str) -> list[Attempt]:
        text = "SELECT attempt, outcome, stopped FROM attempt WHERE job_id = ? ORDER BY attempt"
        return [Attempt(*row) for row in self.rows(text, self.id_of(name))]

    def events(self, name: str, what: str = "") -> list[Event]:
        """The history of a job, or what there is of one kind in it."""
        text = "SELECT what, attempt, who, detail FROM event WHERE job_id = ? ORDER BY id"
        events = [Event(*row) for row in self.rows(text, self.id_of(name))]
        return [event for event in events if what in ("", event.what)]

    def count(self, table: str) -> int:
        """How many rows a table of the ledger has."""
        [[count]] = self.rows(f"SELECT count(*) FROM {table}")
        return int(count)

    def dispositions(self, name: str) -> list[str]:
        """What the calls of an order were told: `new`, `repeated`, `joined`, `answered`."""
        said = [line.what for line in self.lines("app") if line.what.startswith(f"has handed in {name} ")]
        return [what.rpartition("(")[2].rstrip(")") for what in said]

    def refused(self, name: str) -> bool:
        """Was an order's submit refused?"""
        return name in self.checks._refused

    def last_s(self, who: str) -> float:
        """When a party last did something that the trace tells of."""
        return max(line.at_s for line in self.lines(who))

    def lines(self, who: str) -> list[Line]:
        """What the trace tells of a party."""
        assert self.trace is not None
        return [line for line in self.trace.lines if line.who == who]

    def at_s(self, what: str, name: str) -> float:
        """When such an event of a job's history happened first, true time."""
        events = [line for line in self.lines("ledger") if line.job == name]
        return min(line.at_s for line in events if line.what.split(" ")[0] == what)

    def handed(self) -> int:
        """How often the broker of a fleet has handed an offer to a worker."""
        return self.broker.handed

    def lying(self) -> list[Offer]:
        """Offers that lie in a lane of a fleet, or in a worker's hands."""
        return self.broker.lying()

    def held_longest_s(self) -> float:
        """How long a worker holds an offer by now, as far as this was looked at before."""
        held = {(end.incarnation, tag) for end in self.broker._workers for tag in end.in_hand}
        self._held_since_s = {key: self._held_since_s.get(key, self.loop.now_s) for key in held}
        return max((self.loop.now_s - since_s for since_s in self._held_since_s.values()), default=0.0)

    def told(self, name: str) -> dict[str, int]:
        """How often each receiver of a job's answer has acted on it, by its address."""
        return {
            msg_id.partition(":webhook:")[2]: count
            for msg_id, count in self.receiver.acts.items()
            if self.id_of(name) in msg_id
        }
