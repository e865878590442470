"""A run is made of its seed."""

from __future__ import annotations

from itertools import pairwise

from planrun.verify.plan import Blow, Plan, Way, plan


def planned(seed: int, *, minutes: float = 2, jobs: int = 100) -> Plan:
    return plan(seed, minutes=minutes, jobs=jobs, lease_s=3, ledger_s=5, blows=list(Blow))


def test_one_seed_is_one_plan_and_another_is_another() -> None:
    assert planned(7) == planned(7)
    assert planned(7) != planned(8)


def test_even_the_shortest_run_has_each_fault() -> None:
    assert {strike.blow for strike in planned(1, minutes=0.1).strikes} == set(Blow)


def test_each_fault_comes_again_only_after_all_others() -> None:
    blows = [strike.blow for strike in planned(3, minutes=10).strikes]
    rounds = [blows[n : n + len(Blow)] for n in range(0, len(blows), len(Blow))]

    assert all(len(set(one)) == len(one) for one in rounds)
    assert len(rounds) > 20


def test_some_jobs_outlive_the_lease_and_every_freeze_does() -> None:
    made = planned(5)

    assert {ask.seconds > 3 for ask in made.asks} == {True, False}
    assert min(strike.seconds for strike in made.strikes) > 5
    assert {ask.way for ask in made.asks} == set(Way)


def test_a_job_that_fails_has_no_key_for_the_key_is_free_at_once() -> None:
    assert {ask.way for ask in planned(6, jobs=500).asks if ask.refuses} == {Way.ONCE, Way.REPEATED}


def test_nothing_happens_once_the_storm_is_over() -> None:
    made = planned(4)

    assert made.storm_s < 2 * 60
    assert max(ask.at_s for ask in made.asks) < made.storm_s
    assert max(strike.at_s for strike in made.strikes) < made.storm_s
    assert all(one.at_s < other.at_s for one, other in pairwise(made.strikes))
