"""A script says what goes wrong, and when: the stalled worker of the first page, held still at a place of the code."""

from __future__ import annotations

from planrun.core.life import State
from planrun.sim.jobs import Deed
from planrun.sim.settings import Order, Settings
from planrun.sim.world import World

SETTINGS = Settings(orders=(Order(n=1),), workers=2, lease_s=10, deed_of=lambda n, attempt: Deed(runs_s=5))


def test_a_worker_that_stalls_past_its_lease_is_refused_and_the_second_one_delivers() -> None:
    with World(1, SETTINGS) as world:
        for name in ("w1", "w2"):
            world.freeze(name, at="settle:before", for_s=30)
        world.run()
        [answer] = world.answers.values()

    assert world.checks.violations == []
    assert (answer.state, world.checks.counts.grants) == (State.FINISHED, 2 + world.checks.counts.losses - 1)
    assert world.checks.counts.refused >= 1


def test_a_worker_that_dies_with_a_commit_in_hand_holds_nobody_up() -> None:
    with World(1, SETTINGS) as world:
        world.freeze("w1", at="ledger:before-commit", nth=2, for_s=500)
        world.crash("w1", at_s=20)
        world.run()

    assert world.checks.violations == []
    assert world.answers["job-1"].state is State.FINISHED


def test_an_answer_whose_confirmation_is_lost_comes_again_and_is_acted_upon_once() -> None:
    with World(1, SETTINGS) as world:
        world.lose("answer", way="back", times=2)
        world.run()
        acts = dict(world.receiver.acts)

    assert world.checks.violations == []
    assert (list(acts.values()), world.checks.counts.messages) == ([1], 3)


def test_of_two_cuts_that_overlap_the_first_that_ends_heals_nothing() -> None:
    with World(1, SETTINGS) as world:
        world.cut("w1", "store", from_s=1, until_s=5)
        world.cut("store", "w1", from_s=3, until_s=9)
        world.store_away(from_s=1, until_s=5)
        world.store_away(from_s=3, until_s=9)
        for at_s, is_gone in ((0.5, False), (2, True), (6, True), (9.5, False)):
            world.run(until_s=at_s)
            assert world.net.is_cut("w1", "store") == bool(world.store.away) == is_gone


def test_two_stops_at_one_place_both_come() -> None:
    with World(1, SETTINGS) as world:
        for name in ("w1", "w2"):
            world.freeze(name, at="settle:before", nth=1, for_s=1)
            world.crash(name, at="settle:before", nth=2)
        world.run()

    assert world.checks.violations == []
    lines = [line.what for line in world.trace.lines] if world.trace else []
    assert "is frozen for 1 s" in lines
