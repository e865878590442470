"""Scenarios F1 to F9: releases are rolled out while jobs run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from planrun.sim.jobs import Deed, SimProcess
from planrun.sim.net import Fate
from planrun.sim.settings import Mode, Order
from tests.sim.sights import join_late, stored, times
from tests.sim.story import Job, Story, seeds

few_seeds = pytest.mark.parametrize("seed", (1, 2))
ENCODE = (Order(n=1, kind="encode"),)
LONG = Deed(runs_s=40, checkpoint_every_s=5)
FINISHED = Job("finished", None, 1, (0, 0, 0))
FINISHED_AFTER_A_HANDBACK = Job("finished", None, 2, (0, 0, 1))
FINISHED_AFTER_A_LOSS = Job("finished", None, 2, (0, 1, 0))


def outcomes(story: Story, name: str = "job-1") -> list[str | None]:
    return [attempt.outcome for attempt in story.attempts(name)]


def checkpoint(story: Story) -> tuple[int, int]:
    """Which one the next attempt would start from: of which attempt, its how manieth."""
    [(attempt, seq)] = story.rows("SELECT checkpoint ->> '$[0].attempt', checkpoint ->> '$[0].seq' FROM job")
    return attempt, seq


def took_s(story: Story) -> float:
    """How long the attempt that won has run."""
    [finished_s] = times(story, "ledger", "success", "job-1")
    return finished_s - story.starts[-1].at_s


def comes_again(story: Story, word: str, *, after_s: float) -> list[str]:
    """The first of its kind is not answered, and arrives once more after a while. Who has sent it, once it has."""
    fate_of = story.net.fate_of
    asked: list[str] = []

    def fate(who: str, whom: str, what: str) -> Fate:
        its = fate_of(who, whom, what)
        if what == word and not asked:
            asked.append(who)
            its.lost_back, its.doubled_s = True, after_s
        return its

    story.net.fate_of = fate
    return asked


@seeds
def test_f1_a_job_that_is_near_its_end_when_its_worker_is_told_to_end_finishes_under_heartbeats(seed: int) -> None:
    lease_s = 6
    orders = (Order(n=1), Order(n=2, at_s=8))
    deed_of = lambda n, attempt: Deed(runs_s=30)  # noqa: E731
    with Story("F1", seed, orders=orders, lease_s=lease_s, drain_grace_s=60, deed_of=deed_of) as story:
        join_late(story, "w2", 2)
        story.deploy("w1", at_s=5)  # four leases before the end
        story.run()

        assert story.job("job-1") == story.job("job-2") == FINISHED
        assert outcomes(story) == ["success"]
        assert [(start.n, start.who) for start in story.starts] == [(1, "w1"), (2, "w2")]  # it took nothing more
        [finished_s], [ended_s, *_] = times(story, "ledger", "success", "job-1"), times(story, "w1", "has ended with 0")
        assert finished_s <= ended_s < finished_s + 1


@seeds
def test_f2_a_long_job_leaves_a_checkpoint_and_is_taken_over_at_once_from_there(seed: int) -> None:
    with Story("F2", seed, orders=ENCODE, deed_of=lambda n, attempt: LONG) as story:
        join_late(story, "w2", 2)
        story.deploy("w1", at_s=13)
        handed_back: list[Job | None] = []
        story.when(lambda: outcomes(story) == ["released"], lambda: handed_back.append(story.job("job-1")))
        story.run()

        assert handed_back == [Job("queued", None, 2, (0, 0, 1))]
        assert story.job("job-1") == Job("finished", None, 2, (0, 0, 0))  # its newer checkpoints ended that count
        assert outcomes(story) == ["released", "success"]
        assert [start.who for start in story.starts] == ["w1", "w2"]
        assert [event.attempt for event in story.events("job-1", "checkpoint")].count(1) == 3  # the last one at the end
        [released_s], [_, again_s] = times(story, "ledger", "released"), times(story, "ledger", "granted")
        assert 13 < released_s < 13 + 2
        assert again_s < released_s + 0.5
        assert took_s(story) < LONG.runs_s - 10 + 1


@seeds
@pytest.mark.parametrize("proof", [True, False])
def test_f3_who_is_killed_before_it_has_handed_its_job_back_loses_it_by_proof_or_by_lease(
    seed: int, proof: bool
) -> None:
    lease_s = 30
    settings: dict[str, Any] = {"orders": ENCODE, "proof_of_death": proof, "lease_s": lease_s, "restart_s": 100}
    with Story("F3", seed, deed_of=lambda n, attempt: LONG, **settings) as story:
        join_late(story, "w2", 2)
        story.deploy("w1", at_s=13)
        story.crash("w1", at_s=13.5)  # it waits for the checkpoint
        story.run()

        assert story.job("job-1") == FINISHED_AFTER_A_LOSS
        assert outcomes(story) == ["lost", "success"]
        [lost_s] = times(story, "ledger", "lost")
        assert lost_s < 13.5 + 6 if proof else 13.5 + lease_s * 2 / 3 - 1 < lost_s < 13.5 + lease_s + 6
        assert took_s(story) < LONG.runs_s - 10 + 1


@few_seeds
def test_f4_thirty_deploys_during_one_job_end_it_at_the_bound_of_hand_backs(seed: int) -> None:
    with Story("F4", seed, workers=1, restart_s=0.5, deed_of=lambda n, attempt: Deed(runs_s=100)) as story:
        for n in range(30):
            story.deploy("w1", at_s=3 + 4 * n)
        story.run()

        assert story.job("job-1") == Job("failed", "exhausted", 21, (0, 0, 21))
        assert outcomes(story) == ["released"] * 21
        assert times(story, "ledger", "released")[-1] < 3 + 4 * 21
        assert story.told("job-1") == {"http://job-1-0": 1}


@few_seeds
def test_also_f4_a_job_that_leaves_checkpoints_gets_through_thirty_deploys(seed: int) -> None:
    deed = Deed(runs_s=80, checkpoint_every_s=2)
    settings: dict[str, Any] = {"orders": ENCODE, "workers": 1, "restart_s": 0.5}
    with Story("F4", seed, deed_of=lambda n, attempt: deed, **settings) as story:
        for n in range(30):
            story.deploy("w1", at_s=3 + 5 * n)
        story.run()

        job = story.job("job-1")
        assert job is not None
        assert (job.state, job.attempt > 21, job.budgets) == ("finished", True, (0, 0, 0))


@seeds
def test_f5_a_hand_back_whose_answer_is_lost_is_said_again_and_counts_once(seed: int) -> None:
    """The second one arrives when another worker has the job already."""
    with Story("F5", seed, mode=Mode.FLEET, deed_of=lambda n, attempt: Deed(runs_s=20)) as story:
        join_late(story, "w2", 2)
        story.deploy("w1", at_s=10)
        arrived = comes_again(story, "release", after_s=1)
        story.run()

        assert story.job("job-1") == FINISHED_AFTER_A_HANDBACK
        assert outcomes(story) == ["released", "success"]
        assert [start.who for start in story.starts] == ["w1", "w2"]
        assert len(story.events("job-1", "released")) == 1
        assert arrived == ["w1"]
        [key] = stored(story, "job-1", 2)
        assert story.answers["job-1"].outputs["film"].key == key


@seeds
def test_f6_what_a_released_job_has_left_running_is_dead_before_another_worker_may_have_it(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = SimProcess.run
    begun: list[tuple[SimProcess, Path]] = []

    def noted(process: SimProcess, *args: Any, scratch: Path, **options: Any) -> None:
        begun.append((process, scratch))
        run(process, *args, scratch=scratch, **options)

    monkeypatch.setattr(SimProcess, "run", noted)
    with Story("F6", seed, deed_of=lambda n, attempt: Deed(runs_s=20)) as story:
        join_late(story, "w2", 2)
        story.deploy("w1", at_s=10)
        seen: list[bool] = []
        story.when(lambda: outcomes(story)[:1] == ["released"], lambda: seen.append(begun[0][0].has_ended))
        story.run()

        assert story.job("job-1") == FINISHED_AFTER_A_HANDBACK
        assert seen == [True]
        [(_, before), (_, after)] = begun
        assert before != after


@seeds
def test_f7_calls_that_an_orchestrator_took_right_before_it_was_replaced_are_made_again_and_done_once(
    seed: int,
) -> None:
    with Story("F7", seed, mode=Mode.FLEET, restart_s=0.5) as story:
        places = [
            lambda: story.count("job"),
            lambda: story.attempts("job-1"),
            lambda: outcomes(story) == ["success"],
            lambda: story.rows("SELECT 1 FROM outbox WHERE confirmed = 1"),
        ]
        for place in places:  # it is written, and nobody is told
            story.when(place, lambda: story.crash_now("orchestrator"))
        story.run()

        assert len(times(story, "orchestrator", "crashes")) == len(places)
        assert story.job("job-1") == FINISHED
        assert outcomes(story) == ["success"]
        assert story.dispositions("job-1") == ["repeated"]
        assert (story.count("job"), len(story.starts)) == (1, 1)
        assert story.told("job-1") == {"http://job-1-0": 1}


@seeds
@pytest.mark.parametrize(("for_s", "stands"), [(17, (1, 1)), (60, (2, 2))])
def test_f8_a_checkpoint_that_comes_after_the_takeover_is_refused_and_what_stands_stays(
    seed: int, for_s: float, stands: tuple[int, int]
) -> None:
    """It comes before the new holder has left one, and after that."""
    deeds = {1: Deed(runs_s=60, checkpoint_every_s=5), 2: Deed(runs_s=80, checkpoint_every_s=20)}
    with Story("F8", seed, orders=ENCODE, lease_s=10, deed_of=lambda n, attempt: deeds[attempt]) as story:
        join_late(story, "w2", 2)
        story.freeze("w1", at="upload:before-complete", nth=2, for_s=for_s)
        story.run(until_s=10 + for_s + 3)

        stale = [key for key in story.store.written if "/1-" in key]
        assert len(stale) == 2
        assert story.job("job-1") == Job("running", None, 2, (0, 1, 0))
        assert checkpoint(story) == stands
        story.run()
        assert outcomes(story) == ["lost", "success"]
        assert took_s(story) < 80 - 5 + 1


@seeds
@pytest.mark.parametrize("how", ["other bytes", "gone"])
def test_f9_a_checkpoint_that_is_not_what_was_left_is_not_used_and_the_job_starts_from_the_beginning(
    seed: int, how: str
) -> None:
    with Story("F9", seed, orders=ENCODE, deed_of=lambda n, attempt: LONG) as story:
        join_late(story, "w2", 2)
        story.deploy("w1", at_s=13)

        def spoil() -> None:
            for key in [key for key in story.store.objects if "/1-" in key]:
                if how == "gone":
                    story.store.lose(key)
                else:
                    story.store.objects[key] = b"39.0"

        story.when(lambda: outcomes(story)[:1] == ["released"], spoil)
        story.run()

        assert story.job("job-1") == Job("finished", None, 2, (0, 0, 0))
        assert outcomes(story) == ["released", "success"]
        assert LONG.runs_s <= took_s(story) < LONG.runs_s + 2
        assert len(stored(story, "job-1", 2)) == 1
