"""Scenarios C1, C2, C8, C12, C13, C17 and C18: who may trust a lease, and for how long."""

from __future__ import annotations

from planrun.core.life import Outcome
from planrun.sim.jobs import Deed
from planrun.sim.settings import Mode, deeds, fails
from tests.sim.sights import cut_off, digest_at, freeze_at_word, join_late, stored, times, written_s
from tests.sim.story import Job, Story, seeds

FINISHED = Job("finished", None, 1, (0, 0, 0))
FINISHED_AFTER_A_LOSS = Job("finished", None, 2, (0, 1, 0))
FINISHED_AFTER_A_FAILURE = Job("finished", None, 2, (1, 0, 0))


@seeds
def test_c1_a_worker_that_is_cut_off_past_its_lease_leaves_the_job_to_who_has_it_now(seed: int) -> None:
    with Story("C1", seed, mode=Mode.FLEET, lease_s=10) as story:
        join_late(story, "w2", 2.5)
        cut_off(story, "w1", from_s=3, until_s=60)
        story.run(until_s=59)
        [of_second] = stored(story, "job-1", 2)
        assert (story.job("job-1"), list(story.receiver.acts.values())) == (FINISHED_AFTER_A_LOSS, [1])
        story.run(until_s=100)
        story.run()

        assert story.attempts("job-1")[0].stopped  # it has asked, and let go
        assert story.answers["job-1"].outputs["film"].key == of_second
        assert story.answers["job-1"].outputs["film"].sha256 == digest_at(story, of_second)
        assert story.checks.counts.messages == 1


@seeds
def test_c2_a_worker_whose_heartbeats_the_broker_confirms_keeps_its_lease_and_uploads_by_its_own_clock(
    seed: int,
) -> None:
    with Story("C2", seed, mode=Mode.FLEET, lease_s=10) as story:
        join_late(story, "w2", 2.5)
        story.cut("w1", "orchestrator", from_s=3, until_s=60)
        story.run()

        assert story.job("job-1") == FINISHED
        [settled_s] = times(story, "ledger", "success")
        [key] = stored(story, "job-1", 1)
        assert written_s(story, key) < 60 < settled_s


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
        [of_first] = stored(story, "job-1", 1)  # the late bytes are written after all
        assert story.store.written[of_second] == [digest]
        assert digest != story.store.written[of_first][0]
        assert story.answers["job-1"].outputs["film"].key == of_second
        assert [attempt.outcome for attempt in story.attempts("job-1")] == ["lost", "success"]
        assert story.checks.counts.messages == 1


@seeds
def test_c12_a_confirmation_that_comes_after_the_own_deadline_revives_nothing(seed: int) -> None:
    """Its heartbeats arrive all the while, so the lease is its own; but only the ledger may tell it so."""
    with Story("C12", seed, mode=Mode.FLEET, lease_s=10, deed_of=lambda n, attempt: Deed(runs_s=30)) as story:
        join_late(story, "w2", 2.5)
        story.cut("w1", "orchestrator", from_s=6, until_s=80)
        freeze_at_word(story, "w1", "beat", after_s=6, for_s=10.5)  # longer than its lease, shorter than the ledger's
        story.run(until_s=79)
        assert story.job("job-1") == Job("running", None, 1, (0, 0, 0))
        assert stored(story, "job-1", 1) == []
        story.run()

        assert story.job("job-1") == FINISHED
        [key] = stored(story, "job-1", 1)
        assert written_s(story, key) > 80


@seeds
def test_c13_a_worker_that_reconnects_after_its_lease_has_ended_is_confirmed_and_does_not_get_it_back(
    seed: int,
) -> None:
    """Nobody tells it: the words to it are lost, and the ledger cannot be asked."""
    table = {(1, 1): Deed(runs_s=30), (1, 2): Deed(runs_s=5)}
    with Story("C13", seed, mode=Mode.FLEET, lease_s=10, deed_of=deeds(table)) as story:
        join_late(story, "w2", 2.5)
        story.lose("tell", times=1000)
        story.cut("w1", "broker", from_s=3, until_s=20)
        story.cut("w1", "orchestrator", from_s=3, until_s=80)
        story.run(until_s=79)
        assert (story.job("job-1"), stored(story, "job-1", 1)) == (FINISHED_AFTER_A_LOSS, [])
        story.run(until_s=120)
        story.run()

        assert stored(story, "job-1", 1) == []
        assert story.attempts("job-1")[0].stopped


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
    """No kind can choose to fail for good instead: planrun has no such word yet."""
    table = {(1, 1): Deed(runs_s=1000, progress_every_s=20)}
    with Story("C18", seed, lease_s=30, deed_of=deeds(table)) as story:
        story.run()

        assert story.job("job-1") == FINISHED_AFTER_A_FAILURE
        assert [attempt.outcome for attempt in story.attempts("job-1")] == ["overtime", "success"]
        [over_s] = times(story, "ledger", "overtime")
        assert 120 < over_s - story.starts[0].at_s < 120 + 2
