"""Scenarios C3 to C7, C19 and C20: the clocks by which leases run, and what is done to them."""

from __future__ import annotations

import pytest

from planrun.core.life import Outcome
from planrun.sim.jobs import Deed
from planrun.sim.settings import Mode, Order, deeds
from tests.sim.sights import cut_off, join_late, stored, times
from tests.sim.story import Job, Story, seeds

FINISHED = Job("finished", None, 1, (0, 0, 0))
FINISHED_AFTER_A_LOSS = Job("finished", None, 2, (0, 1, 0))
FINISHED_AFTER_A_FAILURE = Job("finished", None, 2, (1, 0, 0))
HOUR_S = 3600


@seeds
@pytest.mark.parametrize("by_s", [-HOUR_S, HOUR_S])
def test_c3_a_step_of_the_ledgers_wall_clock_ends_no_lease_and_delays_no_retry(seed: int, by_s: float) -> None:
    table = {(1, 1): Deed(runs_s=3, end=Outcome.TRANSIENT), (2, 1): Deed(runs_s=25)}
    orders = (Order(n=1), Order(n=2))
    with Story("C3", seed, mode=Mode.FLEET, orders=orders, lease_s=10, deed_of=deeds(table)) as story:
        story.step_wall_clock("orchestrator", at_s=5, by_s=by_s)  # job 1 waits, job 2 runs
        story.run()

        assert story.job("job-2") == FINISHED
        assert story.job("job-1") == FINISHED_AFTER_A_FAILURE
        [failed_s] = times(story, "ledger", "transient", "job-1")
        [_, again_s] = times(story, "ledger", "granted", "job-1")
        assert failed_s < 5 < again_s
        assert 2 <= again_s - failed_s < 2.5


@seeds
@pytest.mark.parametrize("by_s", [-HOUR_S, HOUR_S])
def test_c4_a_step_of_a_workers_wall_clock_has_no_effect(seed: int, by_s: float) -> None:
    table = {(1, 1): Deed(runs_s=25, progress_every_s=5)}
    with Story("C4", seed, mode=Mode.FLEET, lease_s=10, deed_of=deeds(table)) as story:
        for name in ("w1", "w2"):
            story.step_wall_clock(name, at_s=5, by_s=by_s)
        story.run()

        assert story.job("job-1") == FINISHED
        [granted_s], [ended_s] = times(story, "ledger", "granted"), times(story, "ledger", "success")
        assert 25 < ended_s - granted_s < 26


@seeds
def test_c5_a_worker_that_slept_past_its_lease_uploads_nothing(seed: int) -> None:
    """It wakes where nobody can be asked: its own clock alone says that the lease is over."""
    with Story("C5", seed, mode=Mode.FLEET, lease_s=30) as story:
        join_late(story, "w2", 2.5)
        cut_off(story, "w1", from_s=3, until_s=100)
        story.suspend("w1", at_s=3, for_s=60)
        story.run(until_s=99)
        assert story.job("job-1") == FINISHED_AFTER_A_LOSS
        story.run(until_s=130)
        story.run()

        assert (stored(story, "job-1", 1), len(stored(story, "job-1", 2))) == ([], 1)
        assert [attempt.stopped for attempt in story.attempts("job-1")] == [1, 1]


@seeds
def test_c6_a_worker_whose_machine_stood_still_believes_uploads_and_is_refused(seed: int) -> None:
    with Story("C6", seed, mode=Mode.FLEET, lease_s=30) as story:
        join_late(story, "w2", 2.5)
        cut_off(story, "w1", from_s=3, until_s=100)
        story.pause_machine("w1", at_s=3, for_s=60)
        story.run(until_s=130)
        story.run()

        assert story.job("job-1") == FINISHED_AFTER_A_LOSS
        [of_first], [of_second] = stored(story, "job-1", 1), stored(story, "job-1", 2)
        assert of_first != of_second == story.answers["job-1"].outputs["film"].key
        assert [event.attempt for event in story.events("job-1", "refused")] == [1]
        assert list(story.receiver.acts.values()) == [1]


@seeds
def test_c7_clocks_that_differ_as_much_as_they_may_let_nobody_trust_a_lease_that_has_ended(seed: int) -> None:
    deed = Deed(runs_s=110, progress_every_s=10)
    with Story("C7", seed, mode=Mode.FLEET, lease_s=300, deed_of=lambda n, attempt: deed) as story:
        join_late(story, "w2", 2.5)
        story.machines["w1"].hardware.rate = 0.999
        story.machines["orchestrator"].hardware.rate = 1.0005
        cut_off(story, "w1", from_s=3, until_s=500)
        story.run()

        assert story.job("job-1") == FINISHED_AFTER_A_LOSS
        assert story.checks.counts.beliefs == 0
        [lost_s] = times(story, "ledger", "lost")
        assert 300 < lost_s < 310


@seeds
def test_c19_after_a_reboot_of_the_box_what_ran_is_queued_at_once(seed: int) -> None:
    with Story("C19", seed, lease_s=600, proof_of_death=False, restart_s=2) as story:
        story.reboot("w1", at_s=3)
        story.run()

        assert story.job("job-1") == FINISHED_AFTER_A_LOSS
        [_, again_s] = times(story, "ledger", "granted")
        assert again_s < 3 + 2 + 1


@seeds
def test_c20_a_box_that_slept_past_the_lease_keeps_its_silent_job(seed: int) -> None:
    """A second after a heartbeat, and for longer than the job may be silent."""
    with Story("C20", seed, lease_s=60, deed_of=lambda n, attempt: Deed(runs_s=40)) as story:
        story.suspend("w1", at_s=21, for_s=70)
        story.run()

        assert story.job("job-1") == FINISHED
