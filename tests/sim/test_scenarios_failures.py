"""Scenarios D14 to D22: a store or a disk that cannot, and the three kinds of failures."""

from __future__ import annotations

import errno
import os
from types import SimpleNamespace

import apsw
import pytest

from planrun.core.life import Outcome
from planrun.sim.jobs import Deed
from planrun.sim.settings import Mode, Order, deeds, fails
from planrun.worker.attempt import Attempt
from planrun.worker.folder import AttemptFolder
from planrun.worker.run import Ran
from tests.sim.sights import join_late, stored, times, words_of
from tests.sim.story import Job, Story, seeds

FINISHED = Job("finished", None, 1, (0, 0, 0))
FINISHED_AFTER_A_FAILURE = Job("finished", None, 2, (1, 0, 0))


def outcomes(story: Story, name: str = "job-1") -> list[str | None]:
    return [attempt.outcome for attempt in story.attempts(name)]


@seeds
def test_d14_a_store_that_refuses_an_upload_fails_the_attempt_and_the_next_one_delivers(seed: int) -> None:
    with Story("D14", seed) as story:
        story.store_refuses(from_s=0, until_s=6.5)
        story.run()

        assert story.job("job-1") == FINISHED_AFTER_A_FAILURE
        assert outcomes(story) == ["transient", "success"]
        [(code,)] = story.rows("SELECT json_extract(error, '$.code') FROM attempt WHERE attempt = 1")
        assert code == "storage"


@seeds
def test_what_a_fault_of_the_worker_ended_is_tried_again_before_its_lease_is_over_and_says_why(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    conclude, faults = Attempt._conclude, [KeyError("planted")]

    async def fail_once(attempt: Attempt, ran: Ran) -> None:
        if faults:
            raise faults.pop()
        await conclude(attempt, ran)

    monkeypatch.setattr(Attempt, "_conclude", fail_once)
    with Story("D14", seed, workers=1, lease_s=60) as story:
        assert story.find() == {"fault"}

        assert story.job("job-1") == FINISHED_AFTER_A_FAILURE
        [(error,)] = story.rows("SELECT json_extract(error, '$.code', '$.message') FROM attempt WHERE attempt = 1")
        assert error == '["worker","a fault of worker w1 (KeyError); its log says more"]'
        assert story.answers


@seeds
def test_d15_an_object_that_the_store_has_lost_before_the_settle_is_never_named(seed: int) -> None:
    with Story("D15", seed) as story:
        story.lose_objects()
        story.run()

        assert story.job("job-1") == FINISHED_AFTER_A_FAILURE
        assert outcomes(story) == ["transient", "success"]
        [lost], [kept] = stored(story, "job-1", 1), stored(story, "job-1", 2)
        assert lost not in story.store.objects
        assert story.answers["job-1"].outputs["film"].key == kept


@seeds
def test_d16_while_the_store_is_away_the_lease_goes_on_and_nothing_is_lost(seed: int) -> None:
    with Story("D16", seed, workers=1, lease_s=10) as story:
        story.store_away(from_s=1, until_s=120)
        story.run(until_s=119)
        [attempt] = story.attempts("job-1")
        assert (story.job("job-1"), attempt.outcome) == (Job("running", None, 1, (0, 0, 0)), None)
        story.run()

        assert story.job("job-1") == FINISHED
        assert len(stored(story, "job-1", 1)) == 1
        assert story.answers["job-1"].outputs


@seeds
def test_also_d16_a_worker_that_is_deployed_while_the_store_is_away_hands_its_job_back(seed: int) -> None:
    with Story("D16", seed, workers=1) as story:
        story.store_away(from_s=1, until_s=60)
        story.deploy("w1", at_s=20)
        story.run()

        assert story.job("job-1") == Job("finished", None, 2, (0, 0, 1))
        assert outcomes(story) == ["released", "success"]


@seeds
def test_d17_on_a_full_scratch_disk_attempts_fail_and_no_more_jobs_are_taken(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    create, statvfs = AttemptFolder.create, os.statvfs
    with Story("D17", seed, workers=1) as story:

        def is_full() -> bool:
            return story.loop.now_s < 60

        def creating(folder: AttemptFolder) -> None:
            if is_full():
                raise OSError(errno.ENOSPC, "No space left on device")
            create(folder)

        def looking(path: str | os.PathLike[str]) -> object:
            room = statvfs(path)
            if not is_full() or (not story.starts and not story.attempts("job-1")):
                return room
            return SimpleNamespace(f_bavail=0, f_frsize=room.f_frsize, f_blocks=room.f_blocks)

        monkeypatch.setattr(AttemptFolder, "create", creating)
        monkeypatch.setattr(os, "statvfs", looking)
        story.run()

        assert story.job("job-1") == FINISHED_AFTER_A_FAILURE
        assert outcomes(story) == ["transient", "success"]
        [_, again_s] = times(story, "ledger", "granted", "job-1")
        assert again_s >= 60


@seeds
def test_d18_a_settle_that_meets_a_full_ledger_disk_is_made_again_and_nothing_half_is_kept(seed: int) -> None:
    with Story("D18", seed) as story:
        story.disk_fails(apsw.FullError("database or disk is full"), from_s=4, until_s=25)
        story.run(until_s=24)
        assert [start.attempt for start in story.starts] == [1]
        assert story.rows("SELECT state, attempt FROM job") == [("running", 1)]
        assert story.rows("SELECT * FROM result") == story.rows("SELECT * FROM outbox") == []
        story.run()

        assert story.job("job-1") == FINISHED
        assert outcomes(story) == ["success"]
        assert list(story.receiver.acts.values()) == [1]


@seeds
def test_d19_a_permanent_error_fails_the_job_once_and_says_why(seed: int) -> None:
    with Story("D19", seed, deed_of=fails(Outcome.PERMANENT)) as story:
        story.run()

        assert story.job("job-1") == Job("failed", "permanent", 1, (1, 0, 0))
        assert outcomes(story) == ["permanent"]
        error = story.answers["job-1"].error
        assert error is not None
        assert error.message == "permanent as told"
        assert list(story.receiver.acts.values()) == [1]
        assert all('"reason":"permanent"' in body for body in story.checks.bodies.values())


@seeds
@pytest.mark.parametrize("failing", [1, 2, 3])
def test_d20_transient_errors_wait_2_4_and_8_seconds(seed: int, failing: int) -> None:
    with Story("D20", seed, deed_of=fails(*[Outcome.TRANSIENT] * failing)) as story:
        story.run()

        assert story.job("job-1") == Job("finished", None, failing + 1, (failing, 0, 0))
        failed_s, granted_s = times(story, "ledger", "transient"), times(story, "ledger", "granted")
        waits_s = [then_s - before_s for before_s, then_s in zip(failed_s, granted_s[1:], strict=True)]
        for wait_s, least_s in zip(waits_s, (2, 4, 8), strict=False):
            assert least_s <= wait_s < least_s + 0.5


@seeds
def test_also_d20_a_job_that_fails_as_often_as_it_may_ends_as_exhausted_and_says_so_once(seed: int) -> None:
    with Story("D20", seed, deed_of=fails(*[Outcome.TRANSIENT] * 4)) as story:
        story.run()

        assert story.job("job-1") == Job("failed", "exhausted", 4, (4, 0, 0))
        assert story.checks.counts.messages == 1
        assert story.answers["job-1"].reason == "exhausted"


@seeds
def test_d21_a_fatal_error_ends_its_worker_and_each_of_its_jobs_returns_when_its_lease_runs_out(seed: int) -> None:
    lease_s = 30
    table = {(n, 1): Deed(runs_s=60) for n in (2, 3, 4)} | {(1, 1): Deed(runs_s=2, end=Outcome.FATAL)}
    orders = tuple(Order(n=n) for n in (1, 2, 3, 4, 5))
    with Story("D21", seed, orders=orders, slots=4, lease_s=lease_s, restart_s=100, deed_of=deeds(table)) as story:
        join_late(story, "w2", 5)
        story.run()

        assert story.job("job-1") == FINISHED_AFTER_A_FAILURE
        assert {start.n for start in story.starts if start.who == "w1"} == {1, 2, 3, 4}  # and not job 5, which waited
        [broke_s] = times(story, "ledger", "fatal", "job-1")
        [ended_s] = times(story, "w1", "has ended with 70")
        assert ended_s < broke_s + 1
        for name in ("job-2", "job-3", "job-4"):
            assert story.job(name) == Job("finished", None, 2, (0, 1, 0))
            assert outcomes(story, name) == ["lost", "success"]
            [lost_s] = times(story, "ledger", "lost", name)
            assert broke_s + lease_s * 2 / 3 - 1 < lost_s < broke_s + lease_s + 6
        assert {start.who for start in story.starts if start.attempt == 2} == {"w2"}


@seeds
def test_d22_a_failure_whose_answer_is_lost_is_told_again_and_counts_once(seed: int) -> None:
    """It is told again while the next attempt runs."""
    table = {(1, 1): Deed(runs_s=2, end=Outcome.TRANSIENT), (1, 2): Deed(runs_s=60, progress_every_s=10)}
    with Story("D22", seed, mode=Mode.FLEET, deed_of=deeds(table)) as story:
        words = words_of(story)
        story.lose("settle", way="back", times=2)
        story.run(until_s=60)
        assert [what for _, what in words].count("settle") >= 3
        assert story.job("job-1") == Job("running", None, 2, (1, 0, 0))
        story.run()

        assert story.job("job-1") == FINISHED_AFTER_A_FAILURE
        assert outcomes(story) == ["transient", "success"]
