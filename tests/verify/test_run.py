"""How a run spends its time: no fault holds the others up, and what comes late is still heard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from planrun.clock import SystemClock
from planrun.core.errors import LedgerUnavailable, LedgerUnusable, PlanrunError
from planrun.verify import run as runs
from planrun.verify import torture as tortures
from planrun.verify.plan import Blow, Plan, Strike
from planrun.verify.run import Run
from planrun.verify.story import Copy, Story
from tests.verify.test_observer import copy, story

if TYPE_CHECKING:
    from planrun.client import AsyncClient
    from planrun.storage.contract import Store
    from planrun.verify.crew import Crew

pytestmark = pytest.mark.anyio
STORM_S = 0.4


class Idle:
    """A crew in which nobody runs a job."""

    def __init__(self) -> None:
        self.clock = SystemClock.open_system()
        self.began_ms = self.clock.boot_ms()
        self.killed_after_ms: list[int] = []
        self.done: Counter[Blow] = Counter()
        self.meanwhile: Callable[[], None] = lambda: None

    async def can_spare(self, strike: Strike) -> bool:
        return True

    async def strike(self, strike: Strike) -> bool:
        self.meanwhile()
        if strike.blow is Blow.KILL:
            self.killed_after_ms.append(self.clock.boot_ms() - self.began_ms)
            self.done[Blow.KILL] += 1
        return strike.blow is Blow.KILL

    async def calm(self) -> None: ...


def made(crew: Idle, folder: Path, said: list[str]) -> Run:
    strikes = tuple(Strike(0, blow, 0, 0, STORM_S / 8) for blow in (Blow.JOB, Blow.KILL))
    return Run(
        Plan(1, STORM_S, (), strikes),
        cast("Crew", crew),
        (),
        cast("Store", None),
        crew.clock,
        name="v",
        namespace="ns",
        notes=folder,
        say=said.append,
    )


async def test_a_fault_that_finds_nobody_does_not_keep_the_others_from_happening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "LOOK_EVERY_S", STORM_S / 40)
    crew = Idle()

    await made(crew, tmp_path, []).carry_out()

    assert [after_ms < STORM_S * 1000 for after_ms in crew.killed_after_ms] == [True]


async def test_it_says_now_and_then_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "SAY_EVERY_S", STORM_S / 4)
    said: list[str] = []
    run = made(crew := Idle(), tmp_path, said)
    lost = story()
    lost.told.clear()
    crew.meanwhile = lambda: run.stories.__setitem__(slice(None), [lost])
    await run.carry_out()

    assert said
    assert said[-1].endswith("1 of 1 jobs handed in, 1 have ended, 1 faults, 1 wrong so far")


class Receiver:
    """Gets one message more at each look, and knows when it looked."""

    route = "queue:r"

    def __init__(self, *comes: Copy) -> None:
        self._comes = comes
        self._looks = 0

    async def arrived(self) -> list[Copy]:
        self._looks += 1
        return list(self._comes[: self._looks])

    async def close(self) -> None: ...


async def test_what_comes_after_the_last_message_that_was_owed_is_still_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tortures, "AFTER_LAST_S", 0.1)
    monkeypatch.setattr(tortures, "LOOK_EVERY_S", 0.01)
    run = made(Idle(), tmp_path, [])
    owed: Story = story()
    owed.copies = []
    run.stories.append(owed)
    receiver = Receiver(copy(), copy(msg_id="m2"), copy(job_id="j9"))

    strangers = await tortures.collect_messages(run, receiver, SystemClock.open_system())

    assert [one.msg_id for one in owed.copies] == ["m1", "m2"]
    assert [one.result.job_id for one in strangers] == ["j9"]


class Refuses:
    def __init__(self, error: PlanrunError) -> None:
        self._error = error

    async def workers(self) -> list[object]:
        raise self._error


async def test_nobody_is_ready_while_the_ledger_is_away_and_any_other_refusal_ends_the_run() -> None:
    assert await tortures.ready(cast("AsyncClient", Refuses(LedgerUnavailable("busy"))), "v") == set()
    with pytest.raises(LedgerUnusable):
        await tortures.ready(cast("AsyncClient", Refuses(LedgerUnusable("no token"))), "v")
