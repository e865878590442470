"""Scenarios B18 to B22: who comes when in a long line, and what waits for a machine that is not there."""

from __future__ import annotations

from typing import Any

import pytest

from planrun.core import routing
from planrun.orchestrator import sweeper
from planrun.sim.jobs import Deed
from planrun.sim.settings import Mode, Order
from tests.sim.story import Job, Story, few_seeds

SLOTS = 4
WINDOW = 2 * SLOTS  # offers that may be out in a lane
WARM_S = 125.0  # by then its workers are taken to have come
FINISHED_AT_ONCE = Job("finished", None, 1, (0, 0, 0))
DEFAULTS: dict[str, Any] = {"mode": Mode.FLEET, "workers": 2, "slots": SLOTS // 2}


def fleet(name: str, seed: int, **settings: Any) -> Story:
    return Story(name, seed, **{**DEFAULTS, **settings})


def granted_between(story: Story, name: str) -> int:
    """How many jobs were granted after this one was handed in and before its turn."""
    [asked_s] = [line.at_s for line in story.lines("app") if line.what.startswith(f"has handed in {name} ")]
    granted_s = story.at_s("granted", name)
    return sum(line.what.startswith("granted") and asked_s <= line.at_s < granted_s for line in story.lines("ledger"))


@few_seeds
def test_b18_an_urgent_job_overtakes_a_flood_but_for_what_is_already_on_offer(seed: int) -> None:
    """A million of them differ from thirty in nothing but the time that they take."""
    flood = tuple(Order(n=n, waits=False, routes=0) for n in range(1, 33))
    urgent = Order(n=200, name="urgent", at_s=5, priority=5)
    with fleet("B18", seed, orders=(*flood, urgent), deed_of=lambda n, attempt: Deed(runs_s=2)) as story:
        story.run()

        assert granted_between(story, "urgent") <= WINDOW
        assert story.last_s("ledger") > 14  # it was a flood


@few_seeds
def test_b19_one_job_of_another_tenant_comes_next_whatever_the_first_one_has_in_line(seed: int) -> None:
    flood = tuple(Order(n=n, waits=False, routes=0, namespace="x") for n in range(1, 33))
    single = Order(n=200, name="single", at_s=5, namespace="y")
    with fleet("B19", seed, orders=(*flood, single), deed_of=lambda n, attempt: Deed(runs_s=2)) as story:
        story.run()

        assert granted_between(story, "single") <= WINDOW
        assert story.last_s("ledger") > 14


@few_seeds
def test_b20_while_the_only_machine_of_its_kind_is_down_a_job_waits_and_then_runs(seed: int) -> None:
    orders = (*(Order(n=n, at_s=5, needs=("gpu",)) for n in (1, 2)), Order(n=3, at_s=5))
    with fleet("B20", seed, orders=orders, capabilities={"w2": ("gpu",)}, restart_s=600) as story:
        story.crash("w2", at_s=4)
        story.run(until_s=600)
        assert [start.n for start in story.starts] == [3]
        assert story.job("job-1") == story.job("job-2") == Job("queued", None, 1, (0, 0, 0))
        story.run()

        assert {(start.n, start.who) for start in story.starts} == {(3, "w1"), (1, "w2"), (2, "w2")}
        assert all(story.job(f"job-{n}") == FINISHED_AT_ONCE for n in (1, 2, 3))


@few_seeds
def test_b21_what_no_machine_ever_had_fails_at_once_and_is_named(seed: int) -> None:
    orders = (Order(n=1, needs=("tpu",), at_s=WARM_S), Order(n=2, needs=("tpu",)), Order(n=3))
    with fleet("B21", seed, orders=orders, capabilities={"w2": ("gpu",)}) as story:
        story.run()

        for name in ("job-1", "job-2"):  # the second one came before the fleet was warm
            assert story.job(name) == Job("failed", "unsupported", 1, (0, 0, 0))
            error = story.answers[name].error
            assert error is not None
            assert "tpu" in error.message
            assert story.told(name) == {f"http://{name}-0": 1}
            assert story.at_s("unsupported", name) < WARM_S + 1
        assert story.job("job-3") == FINISHED_AT_ONCE


@few_seeds
def test_b22_what_waits_for_a_version_that_was_retired_fails_in_the_end_and_others_do_not(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hours of its limits are minutes here."""
    minute_s = 60
    monkeypatch.setattr(sweeper, "UNSUPPORTED_AFTER_MS", 2 * minute_s * 1000)
    monkeypatch.setattr(routing, "CAPABILITY_TTL_MS", minute_s * 1000)
    orders = (
        Order(n=1, version="v2", at_s=WARM_S),
        *(Order(n=n, version="v2", at_s=WARM_S + 12) for n in (2, 3)),
        Order(n=4, version="v3", at_s=WARM_S + 12),
    )
    with fleet("B22", seed, orders=orders, versions={"w1": ("v2",), "w2": ("v3",)}) as story:
        story.retire("w1", at_s=WARM_S + 10)
        story.run(until_s=WARM_S + minute_s)
        assert story.job("job-2") == story.job("job-3") == Job("queued", None, 1, (0, 0, 0))
        story.run()

        assert story.job("job-1") == story.job("job-4") == FINISHED_AT_ONCE
        for name in ("job-2", "job-3"):
            assert story.job(name) == Job("failed", "unsupported", 1, (0, 0, 0))
            error = story.answers[name].error
            assert error is not None
            assert error.message == "no worker has kind render v2; versions that exist: v3"
            assert story.at_s("unsupported", name) >= WARM_S + 12 + 2 * minute_s
