"""Tests of the tests: no fault of the code under test, nor of the oracle, is taken for bad weather."""

from __future__ import annotations

import gc
import logging
from typing import Any

import apsw
import pytest

from planrun.core.errors import LedgerUnavailable
from planrun.ledger.verbs import ending
from planrun.orchestrator.sweeper import Sweeper
from planrun.sim import campaign, loop
from planrun.sim.checks import Checks
from planrun.sim.history import Report, run_seed
from planrun.sim.settings import Mode, Order, Settings
from planrun.sim.world import World
from planrun.worker.attempt import Attempt
from tests.sim.test_oracle import rules

SETTINGS = Settings(orders=(Order(n=1), Order(n=2, at_s=1)), workers=2, lease_s=10)


class Once:
    """Fails the first time, then does what it stands for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, where: type, name: str, error: Exception) -> None:
        real, self.times = getattr(where, name), 0

        def do(*args: Any, **kwargs: Any) -> Any:
            self.times += 1
            if self.times == 1:
                raise error
            return real(*args, **kwargs)

        monkeypatch.setattr(where, name, do)


@pytest.mark.parametrize(("where", "name"), [(Sweeper, "tick"), (Attempt, "carry"), (ending, "settle")])
@pytest.mark.parametrize("mode", Mode)
def test_a_fault_after_which_the_code_goes_on_ends_the_history(
    where: type, name: str, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    Once(monkeypatch, where, name, KeyError("planted"))
    with World(1, Settings(orders=SETTINGS.orders, workers=2, lease_s=10, mode=mode)) as world:
        world.run()

    assert rules(world) == {"fault"}
    assert "planted" in world.checks.violations[0].what


def test_what_a_broken_world_accounts_for_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    once = Once(monkeypatch, Sweeper, "tick", LedgerUnavailable("planted"))
    with World(1, SETTINGS) as world:
        world.run()

    assert once.times > 1
    assert rules(world) == set()


@pytest.mark.parametrize("name", ["_job", "_same"])
def test_an_error_of_the_oracle_ends_the_history(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Once(monkeypatch, Checks, name, KeyError("planted"))
    with World(1, SETTINGS) as world:
        world.run()

    assert rules(world) == {"fault"}
    assert "the oracle" in world.checks.violations[0].what


def test_a_task_that_nobody_waits_for_and_that_fails_ends_the_history() -> None:
    async def fail() -> None:
        raise KeyError("planted")

    with World(1, SETTINGS) as world:
        world.at(1, lambda: world.machines["w1"].actor.spawn(fail()))  # type: ignore[union-attr]
        world.run()

    assert rules(world) == {"fault"}


def test_who_never_waits_is_found_and_leaves_the_process_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "STEPS_MAX", 20_000)

    hooks = len(apsw.connection_hooks)
    with World(1, SETTINGS) as world:

        def turn() -> None:
            world.loop.world.soon(turn)

        world.at(1, turn)
        world.run()

    assert rules(world) == {"L1"}
    assert "is busy with" in world.checks.violations[0].what
    assert len(apsw.connection_hooks) == hooks
    assert gc.isenabled()
    assert logging.getLogger("planrun").isEnabledFor(logging.WARNING)
    assert not logging.getLogger("planrun").handlers


def test_a_fault_of_the_simulator_names_its_seed_and_the_others_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    real = run_seed

    def run(seed: int, **how: Any) -> Report:
        if seed == 2:
            raise KeyError("planted")
        return real(seed, **how)

    monkeypatch.setattr(campaign, "run_seed", run)
    tally = campaign.run_seeds(range(1, 4), 1, None)

    assert tally.histories == 3
    assert list(tally.failed) == [2]
    assert "KeyError('planted')" in tally.failed[2][0]
