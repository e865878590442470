"""A scenario of docs/internals/scenarios.md, told by a test: a simulated world, and what the row asks for of it.

    with Story("E1", seed, orders=(Order(n=1, delay_s=20, cancel_after_s=5),)) as story:
        story.run()
        assert story.job("job-1").state == "canceled"

Whatever the row asks for, a story ends well only where no rule was broken, and all has come to rest.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple

import pytest

from planrun.client.async_client import AsyncClient
from planrun.core.errors import PlanrunError
from planrun.core.names import job_id_of
from planrun.sim.jobs import Deed
from planrun.sim.machines import App
from planrun.sim.settings import SUCCEEDS, Settings
from planrun.sim.trace import Line
from planrun.sim.world import World

seeds = pytest.mark.parametrize("seed", range(1, 5))


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


class Story(World):
    """Attributes:
    starts: All job code that began to run, in order.
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
        super().__init__(seed, Settings(deed_of=noted, **settings), name=name)

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
        return job_id_of("default", f"call-{name}")

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
        said = [line.what for line in self._lines("app") if line.what.startswith(f"has handed in {name} ")]
        return [what.rpartition("(")[2].rstrip(")") for what in said]

    def refused(self, name: str) -> bool:
        """Was an order's submit refused?"""
        return name in self.checks._refused

    def last_s(self, who: str) -> float:
        """When a party last did something that the trace tells of."""
        return max(line.at_s for line in self._lines(who))

    def _lines(self, who: str) -> list[Line]:
        assert self.trace is not None
        return [line for line in self.trace.lines if line.who == who]

    def at_s(self, what: str, name: str) -> float:
        """When such an event of a job's history happened first, true time."""
        events = [line for line in self._lines("ledger") if line.job == name]
        return min(line.at_s for line in events if line.what.split(" ")[0] == what)

    def told(self, name: str) -> dict[str, int]:
        """How often each receiver of a job's answer has acted on it, by its address."""
        return {
            msg_id.partition(":webhook:")[2]: count
            for msg_id, count in self.receiver.acts.items()
            if self.id_of(name) in msg_id
        }
