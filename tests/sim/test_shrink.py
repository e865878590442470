"""A history that does not hold is made smaller: the receiver here acts upon every message, however often it comes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from planrun.cli.sim import sim
from planrun.client.async_client import AsyncClient
from planrun.inbox import Inbox
from planrun.sim import shrink as shrinking
from planrun.sim.faults import Plan
from planrun.sim.findings import Counts, Violation
from planrun.sim.history import Report, run_plan, run_seed
from planrun.sim.jobs import Deed
from planrun.sim.machines import App
from planrun.sim.script import Act
from planrun.sim.scripted import script_of
from planrun.sim.settings import Mode, Order, Settings, deeds
from planrun.sim.shrink import shrink

ORDERS = tuple(Order(n=n, at_s=2.5 * n, kind="encode", priority=5) for n in range(1, 9))
TABLE = {(n, 1): Deed(runs_s=1.23, checkpoint_every_s=3) for n in range(1, 9)}
ACTS = (
    Act("crash", {"name": "w1", "at_s": 3.456}),
    Act("freeze", {"name": "w3", "at_s": 9.0, "for_s": 20.5}),
    Act("lose", {"what": "answer", "way": "back", "times": 3}),
    Act("deploy", {"name": "w2", "at_s": 7.7}),
)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Report:
    """Eight jobs, four acts, and a receiver that does not remember."""
    once = Inbox.once
    monkeypatch.setattr(Inbox, "once", lambda inbox, msg_id: once(inbox, msg_id) or True)
    settings = Settings(orders=ORDERS, workers=3, lease_s=12, deed_of=deeds(TABLE), lost=0.02, honest_s=40)
    return run_plan(Plan(3, settings, ACTS, TABLE))


def test_of_eight_jobs_and_four_acts_one_of_each_is_left_and_the_same_one_each_time(failing: Report) -> None:
    first, second = shrink(failing), shrink(failing)

    assert [violation.rule for violation in first.report.violations] == ["S3"]
    plan = first.report.plan
    assert ([order.n for order in plan.settings.orders], len(plan.acts), plan.table) == ([8], 1, {})
    assert plan.acts[0] == Act("lose", {"what": "answer", "way": "back", "times": 1})
    assert plan.settings.workers == 1
    assert (first.script, first.report.trace, first.tries) == (second.script, second.report.trace, second.tries)


def test_it_gives_up_after_so_many_tries_and_says_what_it_has(failing: Report) -> None:
    small = shrink(failing, tries_max=2)

    assert small.tries == 2
    assert len(small.report.plan.settings.orders) < len(ORDERS)
    assert small.report.violations


def test_what_is_printed_is_a_test_that_fails_as_the_history_did(failing: Report) -> None:
    module: dict[str, Any] = {}
    exec(shrink(failing, tries_max=20).script, module)

    with pytest.raises(AssertionError):
        module["test_seed_3_breaks_s3"]()


def always_broken(plan: Plan, *, traced: bool = False) -> Report:
    """A history that breaks a rule, whatever the plan is; it takes no time."""
    return Report(plan, (Violation("S3", "as ever", 0.0),), Counts(), "", steps=0, lasted_s=0)


def test_nothing_at_all_is_left_of_what_fails_without_any_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shrinking, "run_plan", always_broken)
    plan = Plan(3, Settings(orders=ORDERS, workers=3, deed_of=deeds(TABLE)), ACTS, TABLE)

    small = shrink(always_broken(plan)).report.plan

    assert (small.settings.orders, small.acts, small.table) == ((), (), {})


def test_what_belongs_to_one_act_stays_in_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy is made before it is restored, and a cut begins before it ends, whatever is moved or rounded."""
    acts = (
        Act("crash", {"name": "w1", "at_s": 2.02}),
        Act("restore", {"copied_s": 3.62, "at_s": 3.82, "recover_s": 3.93, "is_backup": True}),
        Act("cut", {"who": "w1", "whom": "store", "from_s": 4.62, "until_s": 4.92}),
    )
    tried: list[Act] = []

    def run(plan: Plan, *, traced: bool = False) -> Report:
        tried.extend(plan.acts)
        return replace(always_broken(plan), violations=always_broken(plan).violations * (len(plan.acts) == len(acts)))

    monkeypatch.setattr(shrinking, "run_plan", run)
    _, restore, cut = shrink(run(Plan(3, Settings(mode=Mode.FLEET, orders=()), acts))).report.plan.acts

    assert (restore.args["copied_s"], restore.args["at_s"], restore.args["recover_s"]) == (2, 2, 2)
    assert (cut.args["from_s"], cut.args["until_s"]) == (3, 3)
    for act in tried:
        moments = [
            act.args[name] for name in ("copied_s", "at_s", "recover_s", "from_s", "until_s") if name in act.args
        ]
        assert moments == sorted(moments), act


def fails_at(*numbers: int) -> Callable[[App, Order, int], str]:
    """It cannot be said where the answers of these go."""

    def route(app: App, order: Order, number: int) -> str:
        if order.n in numbers:
            raise KeyError(order.name)
        return f"webhook:http://{order.name}-{number}"

    return route


def test_of_two_faults_the_one_that_came_first_is_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are of one type, and from two lines of one file."""
    acts = (
        Act("suspend", {"name": "nobody", "at_s": 3.5, "for_s": 1.0}),
        Act("reboot", {"name": "nobody", "at_s": 4.5}),
    )
    settings = Settings(orders=(Order(n=1), Order(n=2, at_s=5)))
    monkeypatch.setattr(App, "route", fails_at(2))

    report = shrink(run_plan(Plan(3, settings, acts))).report

    assert "KeyError('nobody')" in report.violations[0].what
    assert [act.verb for act in report.plan.acts] == ["suspend"]


def test_the_same_fault_may_be_that_of_another_job_and_no_other_fault_may_be_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both are of one type, and the way to them through the code is not the same."""
    submit = App._submit

    async def submit_but_5(app: App, client: AsyncClient, order: Order) -> str | None:
        if order.n == 5:
            raise KeyError(order.name)
        return await submit(app, client, order)

    monkeypatch.setattr(App, "route", fails_at(2, 3))
    monkeypatch.setattr(App, "_submit", submit_but_5)
    orders = (Order(n=2, at_s=1), Order(n=3, at_s=2), Order(n=4, at_s=2), Order(n=5, at_s=3))

    report = shrink(run_plan(Plan(3, Settings(orders=orders), ()))).report

    assert [order.n for order in report.plan.settings.orders] == [3]
    assert "KeyError('job-3')" in report.violations[0].what


@pytest.mark.parametrize("seed", [1, 3, 4])
def test_a_plan_that_is_written_down_is_the_history_of_its_seed(seed: int) -> None:
    report = run_seed(seed, jobs=3, traced=True)
    module: dict[str, Any] = {}
    exec(script_of(report.plan), module)

    again = Plan(seed, module["SETTINGS"], report.plan.acts)
    assert run_plan(again, traced=True).trace == report.trace


def test_the_command_prints_the_small_one(failing: Report, capsys: pytest.CaptureFixture[str]) -> None:
    status = sim(seed=5, jobs=2, shrink=True)

    printed = capsys.readouterr().out
    assert status == 1
    assert "def test_seed_5_breaks_s3() -> None:\n    with World(5, SETTINGS) as world:\n" in printed
    assert "acts on the answer" in printed
