"""Who writes the ledger has its turn, in virtual time, also where one ends while another is stopped in its turn."""

from __future__ import annotations

import pytest

from planrun.sim.jobs import Deed
from planrun.sim.settings import Order, Settings
from planrun.sim.world import World


@pytest.mark.timeout(30)
@pytest.mark.parametrize("nth", [2, 3, 5])
def test_a_process_that_ends_waits_in_virtual_time_for_one_that_is_frozen_in_its_commit(nth: int) -> None:
    orders = tuple(Order(n=n, at_s=0.5 * n) for n in range(1, 9))
    settings = Settings(
        orders=orders, deed_of=lambda n, attempt: Deed(runs_s=1, progress_every_s=1), commit_s=(0.001, 0.3)
    )
    with World(1, settings) as world:
        world.freeze("w1", at="ledger:before-commit", nth=nth, for_s=15)
        for step in range(1, 12):
            world.deploy("w2", at_s=1.3 * step)
        world.run()

    assert "is frozen for 15 s" in str(world.trace)
    assert not world.checks.violations
