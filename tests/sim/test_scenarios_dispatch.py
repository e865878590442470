"""Scenarios B1 to B17: offers are hints, which get lost, come twice and come late; the grant alone decides."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from planrun.core.life import Outcome
from planrun.sim.jobs import Deed
from planrun.sim.settings import Mode, Order, fails
from tests.sim.story import Attempt, Job, Story, few_seeds, seeds

FINISHED_AT_ONCE = Job("finished", None, 1, (0, 0, 0))
FINISHED_AFTER_A_LOSS = Job("finished", None, 2, (0, 1, 0))
LATER_S = 20.0  # then all are there, and have said so
DEFAULTS: dict[str, Any] = {"mode": Mode.FLEET, "workers": 2, "lease_s": 12, "proof_of_death": False}


def fleet(name: str, seed: int, **settings: Any) -> Story:
    return Story(name, seed, **{**DEFAULTS, **settings})


def crash_first(story: Story, place: str) -> None:
    """Whoever gets there first dies there."""

    def first(who: str, other: str) -> None:
        story.stop_waiting(other, place)
        story.crash(who, at=place)

    story.when_at("w1", place, lambda: first("w1", "w2"))
    story.when_at("w2", place, lambda: first("w2", "w1"))


@seeds
def test_b1_an_offer_that_two_workers_have_is_granted_once_and_acknowledged_by_both(seed: int) -> None:
    with fleet("B1", seed) as story:
        story.slow("grant_first", by_s=1, times=2)  # then both have one in their hands
        story.double("offer")
        story.run()

        assert story.handed() == 2
        assert story.job("job-1") == FINISHED_AT_ONCE
        assert story.attempts("job-1") == [Attempt(1, "success", stopped=1)]
        assert len(story.starts) == 1
        assert story.lying() == []


@seeds
def test_b2_an_offer_that_one_worker_has_twice_runs_once(seed: int) -> None:
    with fleet("B2", seed, workers=1, slots=2) as story:
        story.slow("grant_first", by_s=1, times=2)
        story.double("offer")
        story.run()

        assert story.handed() == 2
        assert story.job("job-1") == FINISHED_AT_ONCE
        assert len(story.starts) == 1
        assert story.lying() == []


@seeds
def test_b3_who_dies_before_the_grant_leaves_the_offer_to_another_at_the_same_attempt(seed: int) -> None:
    with fleet("B3", seed, restart_s=300) as story:
        crash_first(story, "grant:asking")
        story.run()

        assert story.handed() == 2
        assert story.job("job-1") == FINISHED_AT_ONCE
        assert story.attempts("job-1") == [Attempt(1, "success", stopped=1)]
        assert len(story.sent) == 1  # handed over, not offered anew


@seeds
def test_b4_who_dies_between_grant_and_acknowledgement_loses_a_lease_and_the_offer_is_refused(seed: int) -> None:
    with fleet("B4", seed, restart_s=300) as story:
        crash_first(story, "grant:answered")
        story.run(until_s=10)
        assert [attempt.outcome for attempt in story.attempts("job-1")] == [None]  # it came again, and was refused
        assert story.handed() == 2
        assert not story.lying()
        assert not story.starts
        story.run()

        assert story.job("job-1") == FINISHED_AFTER_A_LOSS
        assert [attempt.outcome for attempt in story.attempts("job-1")] == ["lost", "success"]
        assert [start.attempt for start in story.starts] == [2]
        assert story.at_s("lost", "job-1") - story.at_s("granted", "job-1") >= 12


@seeds
def test_b5_who_dies_between_acknowledgement_and_start_loses_a_lease(seed: int) -> None:
    with fleet("B5", seed, restart_s=300) as story:
        crash_first(story, "grant:acknowledged")
        story.run()

        assert story.job("job-1") == FINISHED_AFTER_A_LOSS
        assert [attempt.outcome for attempt in story.attempts("job-1")] == ["lost", "success"]
        assert [start.attempt for start in story.starts] == [2]
        assert story.at_s("lost", "job-1") - story.at_s("granted", "job-1") >= 12


@seeds
def test_b6_a_grant_whose_answer_is_lost_is_asked_for_again_and_is_the_same(seed: int) -> None:
    with fleet("B6", seed, workers=1, lease_s=60) as story:
        story.lose("grant_first", way="back")
        story.run()

        assert story.job("job-1") == FINISHED_AT_ONCE
        assert story.checks.counts.grants == len(story.starts) == len(story.events("job-1", "granted")) == 1


@seeds
def test_b7_a_grant_whose_answer_never_comes_runs_out_and_another_runs_it(seed: int) -> None:
    with fleet("B7", seed, workers=1) as story:

        def cut() -> None:
            story.cut("w1", "orchestrator", from_s=0, until_s=90)
            story.join("w2")

        story.when(lambda: story.attempts("job-1"), cut)
        story.run()

        assert story.job("job-1") == FINISHED_AFTER_A_LOSS
        assert [attempt.outcome for attempt in story.attempts("job-1")] == ["lost", "success"]
        assert [(start.attempt, start.who) for start in story.starts] == [(2, "w2")]


@few_seeds
def test_b8_a_broker_that_loses_everything_loses_no_job_and_runs_none_twice(seed: int) -> None:
    """Ten thousand of them differ from twenty-four in nothing but the time that they take."""
    orders = tuple(Order(n=n, waits=False) for n in range(1, 25))
    with fleet("B8", seed, orders=orders, slots=4, deed_of=lambda n, attempt: Deed(runs_s=6)) as story:
        story.wipe_broker(at_s=8)
        story.run(until_s=7.9)
        running = [start.n for start in story.starts if start.at_s > 1.9]
        assert running
        assert story.lying()
        story.run()

        assert [start.n for start in sorted(story.starts)] == list(range(1, 25))
        assert story.rows("SELECT DISTINCT state, attempt, failures + losses + handbacks FROM job") == [
            ("finished", 1, 0)
        ]
        assert story.last_s("ledger") < 120


@seeds
@pytest.mark.parametrize("how", ["finished", "canceled", "exhausted"])
def test_b9_an_offer_of_a_job_that_has_ended_is_acknowledged_and_nothing_runs(seed: int, how: str) -> None:
    order = Order(n=1, cancel_after_s=2 if how == "canceled" else None, max_attempts=1)
    end = Outcome.TRANSIENT if how == "exhausted" else Outcome.SUCCESS
    with fleet("B9", seed, orders=(order,), deed_of=lambda n, attempt: Deed(runs_s=4, end=end)) as story:
        story.run(until_s=20)
        job, before = story.job("job-1"), story.events("job-1")
        assert job is not None
        assert how in (job.state, job.reason)
        [(lane, offer)] = story.sent
        story.broker.put(lane, offer)
        story.run()

        assert story.handed() == 2
        assert (story.job("job-1"), story.events("job-1")) == (job, before)
        assert len(story.starts) == 1
        assert (story.lying(), story.broker.orphans) == ([], 0)


@seeds
def test_b10_an_offer_of_an_attempt_that_is_over_is_acknowledged_and_nothing_runs(seed: int) -> None:
    with fleet("B10", seed, deed_of=fails(Outcome.TRANSIENT)) as story:
        story.when(lambda: story.events("job-1", "transient"), lambda: story.broker.put(*story.sent[0]))
        story.run()

        assert story.handed() == 3
        assert [attempt.outcome for attempt in story.attempts("job-1")] == ["transient", "success"]
        assert story.at_s("granted", "job-1") < story.at_s("transient", "job-1")
        assert [start.attempt for start in story.starts] == [1, 2]
        assert (story.lying(), story.broker.orphans) == ([], 0)


@seeds
@pytest.mark.parametrize("is_known", [True, False])
def test_b11_an_offer_that_the_ledger_does_not_know_is_put_aside_and_nothing_is_granted(
    seed: int, is_known: bool
) -> None:
    """That a fleet stops where its ledger has sealed what it no longer knows is another scenario."""
    orders = (Order(n=1), Order(n=2, delay_s=40))
    with fleet("B11", seed, orders=orders) as story:
        story.run(until_s=20)
        [(lane, offer)] = story.sent
        job_id = story.id_of("job-2") if is_known else "00000000-0000-5000-8000-000000000000"
        story.broker.put(lane, msgspec.structs.replace(offer, job_id=job_id, attempt=9, seal=""))
        story.run(until_s=25)
        seen = story.ask(26, lambda client: client.why("call-job-2"))
        story.run()

        assert story.broker.orphans == 1
        assert story.checks.counts.grants == len(story.starts) == 2
        assert story.job("job-1") == story.job("job-2") == FINISHED_AT_ONCE
        assert story.lying() == []
        assert seen.answer is not None


@seeds
def test_b12_the_very_worker_that_has_failed_an_attempt_runs_the_next_one(seed: int) -> None:
    with fleet("B12", seed, workers=1, deed_of=fails(Outcome.TRANSIENT)) as story:
        story.run()

        assert [(start.attempt, start.who) for start in story.starts] == [(1, "w1"), (2, "w1")]
        assert story.job("job-1") == Job("finished", None, 2, (1, 0, 0))
        assert story.starts[1].at_s - story.at_s("transient", "job-1") < 4  # its two seconds, and the way


@few_seeds
def test_b13_while_all_slots_are_full_nobody_hoards_offers_and_no_attempt_is_spent(seed: int) -> None:
    orders = tuple(Order(n=n) for n in range(1, 7))
    deed = Deed(runs_s=110, progress_every_s=30)
    with fleet("B13", seed, orders=orders, workers=1, slots=2, deed_of=lambda n, attempt: deed) as story:
        for at_s in range(10, 330, 10):
            story.run(until_s=at_s)
            assert story.held_longest_s() <= 60
        story.run()

        assert story.handed() <= 2 * len(orders)  # and none is handed to and fro
        assert sorted(start.n for start in story.starts) == [1, 2, 3, 4, 5, 6]
        assert all(story.job(f"job-{n}") == FINISHED_AT_ONCE for n in range(1, 7))
        assert story.last_s("ledger") < 3 * 112 + 10  # each started as soon as a slot was free


@few_seeds
def test_b14_a_worker_that_does_not_reach_the_orchestrator_gives_its_offers_back_in_no_hurry(seed: int) -> None:
    away_s = 300
    with fleet("B14", seed, workers=1) as story:
        story.when_at("w1", "grant:asking", lambda: story.cut("w1", "orchestrator", from_s=0, until_s=away_s))
        held_s = 0.0
        for at_s in range(10, away_s, 10):
            story.run(until_s=at_s)
            held_s = max(held_s, story.held_longest_s())
        assert held_s < 120
        assert story.handed() < away_s / 5
        story.run()

        assert story.job("job-1") == FINISHED_AT_ONCE
        assert len(story.starts) == 1


@seeds
def test_b15_a_message_that_nobody_can_read_is_put_away_and_its_job_offered_again(seed: int) -> None:
    with fleet("B15", seed, orders=(Order(n=1, at_s=LATER_S), Order(n=2, at_s=LATER_S + 2))) as story:
        story.broker.spoilt = 1
        story.run()

        assert story.broker.dead == 1
        assert story.job("job-1") == story.job("job-2") == FINISHED_AT_ONCE
        assert [start.n for start in story.starts] == [2, 1]  # the consumer goes on
        assert 5 <= story.at_s("granted", "job-1") - LATER_S < 10


@seeds
def test_b16_an_offer_that_was_delivered_too_often_is_put_away_and_its_job_offered_again(seed: int) -> None:
    deaths = 3
    with fleet("B16", seed, orders=(Order(n=1, at_s=LATER_S),), workers=1, restart_s=0.2) as story:
        story.broker.deliveries_max = deaths
        left = list(range(deaths))

        def die() -> None:
            left.pop()
            story.crash("w1", at="grant:asking")
            if left:
                story.when_at("w1", "grant:asking", die)

        story.when_at("w1", "grant:asking", die)
        story.run(until_s=LATER_S + 4)
        assert (left, story.broker.dead, story.handed()) == ([], 1, deaths)
        assert story.attempts("job-1") == []
        story.run()

        assert story.job("job-1") == FINISHED_AT_ONCE
        assert len(story.sent) == 2


@seeds
def test_b17_a_cancel_between_offer_and_grant_wins(seed: int) -> None:
    with fleet("B17", seed, workers=1) as story:
        story.slow("grant_first", by_s=3)
        heard = []
        cancel = lambda client: client.cancel("call-job-1", who="somebody")  # noqa: E731
        story.when_at("w1", "grant:asking", lambda: heard.append(story.ask_now(cancel)))
        story.run()

        assert heard[0].answer.canceled
        assert story.job("job-1") == Job("canceled", None, 1, (0, 0, 0))
        assert not story.attempts("job-1")
        assert not story.starts
        assert (story.lying(), story.broker.orphans) == ([], 0)
