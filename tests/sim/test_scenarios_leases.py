"""Scenarios C1 to C19: leases, and the clocks by which they run."""

from __future__ import annotations

import pytest

from planrun.core.life import Outcome
from planrun.sim.jobs import Deed
from planrun.sim.settings import Order, deeds, fails
from tests.sim.sights import digest_at, join_late, stored, times
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
    with Story("C3", seed, orders=orders, lease_s=10, deed_of=deeds(table)) as story:
        story.step_wall_clock("w1", at_s=4, by_s=by_s)  # job 1 waits, job 2 runs
        story.run()

        assert story.job("job-2") == FINISHED
        assert story.job("job-1") == FINISHED_AFTER_A_FAILURE
        [failed_s] = times(story, "ledger", "transient", "job-1")
        [_, again_s] = times(story, "ledger", "granted", "job-1")
        assert failed_s < 4 < again_s
        assert 2 <= again_s - failed_s < 2.5


@seeds
def test_c8_who_stands_still_between_fence_and_end_of_its_upload_writes_to_a_key_that_nobody_names(seed: int) -> None:
    with Story("C8", seed, lease_s=10, upload_s=(2, 2)) as story:
        join_late(story, "w2", 2)
        story.freeze("w1", at="upload:before-complete", for_s=60)
        story.run(until_s=60)

        [of_second] = stored(story, "job-1", 2)
        digest = digest_at(story, of_second)
        assert (story.job("job-1"), stored(story, "job-1", 1)) == (FINISHED_AFTER_A_LOSS, [])
        story.run()
        [of_first] = stored(story, "job-1", 1)  # S1's picture: the late bytes are written after all
        assert story.store.written[of_second] == [digest]
        assert digest != story.store.written[of_first][0]
        assert story.answers["job-1"].outputs["film"].key == of_second
        assert [attempt.outcome for attempt in story.attempts("job-1")] == ["lost", "success"]
        assert story.checks.counts.messages == 1


@seeds
def test_c17_a_job_that_hangs_is_killed_at_its_stall_limit_and_tried_again(seed: int) -> None:
    with Story("C17", seed, lease_s=10, deed_of=fails(Outcome.STALLED)) as story:
        story.run()

        assert story.job("job-1") == FINISHED_AFTER_A_FAILURE
        assert [attempt.outcome for attempt in story.attempts("job-1")] == ["stalled", "success"]
        [stalled_s] = times(story, "ledger", "stalled")
        assert 45 < stalled_s - story.starts[0].at_s < 45 + 2


@seeds
def test_c18_a_job_that_runs_longer_than_it_may_is_killed_and_tried_again(seed: int) -> None:
    table = {(1, 1): Deed(runs_s=1000, progress_every_s=20)}
    with Story("C18", seed, lease_s=30, deed_of=deeds(table)) as story:
        story.run()

        assert story.job("job-1") == FINISHED_AFTER_A_FAILURE
        assert [attempt.outcome for attempt in story.attempts("job-1")] == ["overtime", "success"]
        [over_s] = times(story, "ledger", "overtime")
        assert 120 < over_s - story.starts[0].at_s < 120 + 2


@seeds
def test_c19_after_a_reboot_of_the_box_what_ran_is_queued_at_once(seed: int) -> None:
    with Story("C19", seed, lease_s=600, proof_of_death=False, restart_s=2) as story:
        story.reboot("w1", at_s=3)
        story.run()

        assert story.job("job-1") == FINISHED_AFTER_A_LOSS
        [_, again_s] = times(story, "ledger", "granted")
        assert again_s < 3 + 2 + 1
