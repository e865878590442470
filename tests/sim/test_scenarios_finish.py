"""Scenarios D1 to D13: how an attempt finishes, uploads and settles, and how its answer gets to who asked for it."""

from __future__ import annotations

import pytest

from planrun.core.kinds import RESULT_TTL_S
from planrun.sim.settings import Mode, Order
from tests.sim.sights import digest_at, join_late, stored, thaw, times, words_of
from tests.sim.story import Attempt, Job, Story, seeds

FINISHED_AFTER_A_LOSS = Job("finished", None, 2, (0, 1, 0))
FINISHED = Job("finished", None, 1, (0, 0, 0))
RESEND_S = 11

announcers = pytest.mark.parametrize(("mode", "announcer"), [(Mode.BOX, "w1"), (Mode.FLEET, "orchestrator")])


def outcomes(story: Story, name: str = "job-1") -> list[str | None]:
    return [attempt.outcome for attempt in story.attempts(name)]


@seeds
def test_d1_who_dies_before_the_upload_leaves_nothing_and_a_second_attempt_delivers(seed: int) -> None:
    with Story("D1", seed) as story:
        join_late(story, "w2", 2)
        story.crash("w1", at="job:done")
        story.run()

        assert story.job("job-1") == FINISHED_AFTER_A_LOSS
        assert outcomes(story) == ["lost", "success"]
        assert (stored(story, "job-1", 1), len(stored(story, "job-1", 2))) == ([], 1)
        assert list(story.receiver.acts.values()) == [1]


@seeds
def test_d2_who_dies_in_an_upload_leaves_nothing_that_is_seen_and_what_it_left_is_collected(seed: int) -> None:
    with Story("D2", seed, upload_s=(2, 2)) as story:
        join_late(story, "w2", 2)
        story.crash("w1", at="upload:before-complete")
        story.run()

        assert story.job("job-1") == FINISHED_AFTER_A_LOSS
        assert (stored(story, "job-1", 1), len(stored(story, "job-1", 2))) == ([], 1)
        assert len(story.store.unfinished) == 1
        story.run(until_s=story.loop.now_s + 120)
        assert story.store.unfinished == {}
        assert stored(story, "job-1", 2)[0] in story.store.objects


@seeds
def test_d3_who_dies_between_upload_and_settle_leaves_an_object_that_is_collected(seed: int) -> None:
    with Story("D3", seed) as story:
        join_late(story, "w2", 2)
        story.crash("w1", at="settle:before")
        story.run()

        assert story.job("job-1") == FINISHED_AFTER_A_LOSS
        [of_first], [of_second] = stored(story, "job-1", 1), stored(story, "job-1", 2)
        assert of_first in story.store.objects
        story.run(until_s=story.loop.now_s + 120)
        assert of_first not in story.store.objects
        assert of_second in story.store.objects
        assert story.answers["job-1"].outputs["film"].key == of_second


@seeds
def test_d4_a_settle_whose_answer_is_lost_is_made_again_and_has_won(seed: int) -> None:
    with Story("D4", seed, mode=Mode.FLEET) as story:
        words = words_of(story)
        story.lose("settle", way="back", times=2)
        story.run(until_s=60)
        story.run()

        assert story.job("job-1") == FINISHED
        asked = [what for who, what in words if who.startswith("w") and what in ("settle", "stopped")]
        assert asked == ["settle"] * 3  # who was refused would say that it has stopped
        [key] = stored(story, "job-1", 1)
        assert story.answers["job-1"].outputs["film"].key == key
        assert story.checks.counts.messages == 1


@seeds
def test_d5_an_answer_whose_worker_died_after_the_commit_is_announced_by_another_one(seed: int) -> None:
    with Story("D5", seed) as story:
        join_late(story, "w2", 2)
        story.crash("w1", at="settle:answered")
        story.run()

        assert story.job("job-1") == FINISHED
        [died_s], [acted_s] = times(story, "w1", "crashes"), times(story, "receiver", "acts on")
        assert died_s < acted_s
        assert story.checks.counts.messages == 1


@seeds
@announcers
def test_d6_who_dies_before_it_has_sent_an_answer_sends_it_after_its_restart(
    mode: Mode, announcer: str, seed: int
) -> None:
    with Story("D6", seed, mode=mode, workers=1) as story:
        story.crash(announcer, at="outbox:taken")
        story.run()

        assert story.job("job-1") == FINISHED
        [died_s], [acted_s] = times(story, announcer, "crashes"), times(story, "receiver", "acts on")
        assert died_s < acted_s < died_s + RESEND_S + 2
        assert (story.checks.counts.messages, list(story.receiver.acts.values())) == (1, [1])


@seeds
@announcers
def test_d7_who_dies_before_it_has_noted_that_an_answer_was_sent_sends_it_again(
    mode: Mode, announcer: str, seed: int
) -> None:
    with Story("D7", seed, mode=mode, workers=1) as story:
        story.crash(announcer, at="outbox:sent")
        story.run()

        assert story.job("job-1") == FINISHED
        assert (story.checks.counts.messages, list(story.receiver.acts.values())) == (2, [1])


@seeds
def test_d8_an_answer_whose_confirmation_is_lost_comes_again_and_is_acted_upon_once(seed: int) -> None:
    with Story("D8", seed) as story:
        story.lose("answer", way="back")
        story.run()

        assert story.job("job-1") == FINISHED
        assert (story.checks.counts.messages, list(story.receiver.acts.values())) == (2, [1])


@seeds
def test_d9_an_answer_that_nobody_takes_is_kept_and_tried_again_until_somebody_does(seed: int) -> None:
    with Story("D9", seed) as story:
        for name in ("w1", "w2"):
            story.cut(name, "receiver", from_s=0, until_s=130)
        story.run(until_s=129)

        assert story.job("job-1") == FINISHED
        assert story.answers["job-1"].attempt == 1  # who waits has it all the while
        assert story.receiver.acts == {}
        [tries] = story.rows("SELECT tries FROM outbox WHERE confirmed = 0")
        assert tries[0] > 4
        story.run()
        assert list(story.receiver.acts.values()) == [1]


@seeds
def test_also_d9_an_answer_for_a_queue_that_nobody_has_declared_waits_for_it(seed: int) -> None:
    """The broker confirms what it has no queue for, and says so apart."""
    with Story("D9", seed, mode=Mode.FLEET, orders=(Order(n=1, routes=2),)) as story:  # a webhook, and a queue
        story.broker.declared = False
        story.run(until_s=60)
        assert story.job("job-1") == FINISHED
        assert story.answers["job-1"].attempt == 1
        assert story.told("job-1") == {"http://job-1-0": 1}
        [(route, tries)] = story.rows("SELECT route, tries FROM outbox WHERE confirmed = 0")
        assert (route, tries > 3) == ("rabbitmq:job-1-1", True)
        story.broker.declared = True
        story.run()

        assert sorted(story.receiver.acts.values()) == [1, 1]


@seeds
def test_also_d9_an_answer_that_its_receiver_wants_no_more_is_parked_once_its_result_was_kept_long_enough(
    seed: int,
) -> None:
    with Story("D9", seed) as story:
        story.receiver.is_gone = True
        box = story.machines["w1"].hardware
        for n in range(1, 12):
            story.run(until_s=6 * n)
            box.slept_s += 300  # longer than the longest wait between two tries
        assert story.rows("SELECT tries >= 10, confirmed FROM outbox") == [(1, 0)]
        assert story.answers["job-1"].attempt == 1
        box.slept_s += RESULT_TTL_S
        story.run(until_s=80)

        assert [event.detail for event in story.events("job-1", "parked")] == ["http://job-1-0: it answered 410"]
        assert story.rows("SELECT 1 FROM outbox WHERE confirmed = 0") == []
        assert story.receiver.acts == {}


@seeds
def test_d10_an_application_that_dies_before_it_has_acknowledged_an_answer_acts_on_it_once(seed: int) -> None:
    orders = (Order(n=1), Order(n=2))
    with Story("D10", seed, orders=orders) as story:
        story.crash("receiver", at="answer:acting")  # its transaction is not committed: as if nothing had come
        story.crash("receiver", at="answer:acted")
        story.run()

        assert story.checks.counts.messages == 4
        assert sorted(story.receiver.acts.values()) == [1, 1]


@seeds
def test_d11_of_two_attempts_that_settle_at_the_same_moment_one_wins(seed: int) -> None:
    with Story("D11", seed, lease_s=10) as story:
        join_late(story, "w2", 2)
        story.freeze("w1", at="settle:before", for_s=500)
        story.freeze("w2", at="settle:before", for_s=0.001)
        story.when_at("w2", "settle:before", lambda: thaw(story, "w1"))
        story.run()

        assert story.job("job-1") == FINISHED_AFTER_A_LOSS
        assert story.attempts("job-1") == [Attempt(1, "lost", 1), Attempt(2, "success", 1)]
        assert [event.attempt for event in story.events("job-1", "refused")] == [1]
        assert story.answers["job-1"].attempt == 2
        assert list(story.receiver.acts.values()) == [1]


@seeds
def test_d12_an_attempt_that_comes_late_with_other_bytes_changes_nothing(seed: int) -> None:
    with Story("D12", seed, lease_s=10) as story:
        join_late(story, "w2", 2)
        story.freeze("w1", at="settle:before", for_s=60)
        story.run()

        [of_first], [of_second] = stored(story, "job-1", 1), stored(story, "job-1", 2)
        [film] = story.answers["job-1"].outputs.values()
        assert (story.job("job-1"), film.key) == (FINISHED_AFTER_A_LOSS, of_second)
        assert film.sha256 == digest_at(story, of_second) != digest_at(story, of_first)
        assert len(story.events("job-1", "refused")) == 1


@seeds
def test_d13_an_upload_whose_answer_is_lost_is_made_again_with_the_same_bytes_to_the_same_key(seed: int) -> None:
    with Story("D13", seed) as story:
        story.lose("upload", way="back", times=2)
        story.run()

        assert story.job("job-1") == FINISHED
        [key] = stored(story, "job-1", 1)
        assert len(story.store.written[key]) == 3
        assert set(story.store.written[key]) == {story.answers["job-1"].outputs["film"].sha256}
