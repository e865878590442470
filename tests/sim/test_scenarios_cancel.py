"""Scenarios E1 to E7: a cancel ends a job at once, for everybody, and nothing of it becomes visible afterwards."""

from __future__ import annotations

from planrun.sim.jobs import Deed
from planrun.sim.settings import Order
from tests.sim.story import Attempt, Story, seeds


def cancels(job: str, who: str = "somebody"):  # type: ignore[no-untyped-def]
    return lambda client: client.cancel(job, who=who, why="no longer wanted")


@seeds
def test_e1_a_waiting_job_is_canceled_and_the_offer_that_was_out_is_refused(seed: int) -> None:
    orders = (Order(n=1), Order(n=2, delay_s=20, cancel_after_s=5))
    with Story("E1", seed, orders=orders, workers=1) as story:
        story.freeze("w1", at="grant:asking", for_s=10)  # with an offer of the first job in its hand
        cancel = story.ask(3, cancels("call-job-1"))
        story.run()

        for name in ("job-1", "job-2"):
            job = story.job(name)
            assert job is not None
            assert (job.state, job.attempt, job.budgets) == ("canceled", 1, (0, 0, 0))
            assert story.attempts(name) == []
            assert len(story.told(name)) == 1
            assert story.answers[name].state == "canceled"
        assert story.starts == []
        assert cancel.answer.canceled
        assert story.at_s("canceled", "job-1") < 4
        error = story.answers["job-1"].error
        assert error is not None
        assert error.message == "canceled by somebody: no longer wanted"


@seeds
def test_e2_a_running_job_is_canceled_at_once_and_its_processes_follow_within_a_heartbeat(seed: int) -> None:
    lease_s, kill_s = 9, 1
    with Story("E2", seed, lease_s=lease_s, deed_of=lambda n, attempt: Deed(runs_s=60)) as story:
        cancel = story.ask(20, cancels("call-job-1"))
        story.run()

        assert cancel.answer.canceled
        assert cancel.at_s is not None
        assert cancel.at_s < 20.5
        assert story.answers["job-1"].state == "canceled"
        assert story.attempts("job-1") == [Attempt(1, "canceled", stopped=1)]
        assert story.at_s("stopped", "job-1") - story.at_s("canceled", "job-1") <= lease_s / 3 + kill_s
        assert story.store.written == {}
        assert len(story.starts) == 1


def test_e3_a_cancel_races_a_settle_and_exactly_one_of_them_wins() -> None:
    winners = set()
    for seed in range(1, 13):
        with Story("E3", seed, workers=1, upload_s=(0, 0.5)) as story:
            # Both ask for the turn at the ledger in the same moment; chance says who gets it.
            heard = []
            story.when_at("w1", "settle:before", lambda: heard.append(story.ask_now(cancels("call-job-1"))))  # noqa: B023
            story.run()

            [cancel] = heard
            job, answer = story.job("job-1"), story.answers["job-1"]
            assert job is not None
            assert answer.state == job.state == cancel.answer.state
            assert story.told("job-1") == {"http://job-1-0": 1}
            if cancel.answer.canceled:
                assert job.state == "canceled"
                assert not answer.outputs
                assert [event.who for event in story.events("job-1", "refused")] == ["w1"]
                assert story.attempts("job-1") == [Attempt(1, "canceled", stopped=1)]
            else:
                assert job.state == "finished"
                assert answer.outputs
                assert story.events("job-1", "canceled") == story.events("job-1", "refused") == []
        winners.add(job.state)
    assert winners == {"canceled", "finished"}


@seeds
def test_e4_a_worker_that_does_not_hear_of_the_cancel_uploads_and_is_refused(seed: int) -> None:
    with Story("E4", seed, workers=1, lease_s=60, upload_s=(4, 4)) as story:
        story.freeze("w1", at_s=8.5, for_s=20)  # in the second half of its upload, when nothing asks any more
        cancel = story.ask(10, cancels("call-job-1"))
        story.run()

        assert cancel.answer.canceled
        assert len(story.store.written) == 1  # it believed in itself, and did upload
        assert story.answers["job-1"].state == "canceled"
        assert not story.answers["job-1"].outputs
        assert story.checks.visible == {}
        assert [event.detail.partition(":")[0] for event in story.events("job-1", "refused")] == [
            "success came too late (canceled)"
        ]
        assert story.attempts("job-1") == [Attempt(1, "canceled", stopped=1)]


@seeds
def test_e5_the_second_cancel_gets_the_same_answer_and_changes_nothing(seed: int) -> None:
    with Story("E5", seed, deed_of=lambda n, attempt: Deed(runs_s=60)) as story:
        first = story.ask(5, cancels("call-job-1", "alice"))
        second = story.ask(5, cancels("call-job-1", "bob"))
        later = story.ask(30, cancels("call-job-1", "carol"))
        story.run()

        replies = [heard.answer for heard in (first, second, later)]
        assert [reply.state for reply in replies] == ["canceled"] * 3
        assert [reply.canceled for reply in replies].count(True) == 1
        [event] = story.events("job-1", "canceled")
        error = story.answers["job-1"].error
        assert error is not None
        assert error.message == f"canceled by {event.who}: no longer wanted"
        assert story.told("job-1") == {"http://job-1-0": 1}


@seeds
def test_e6_a_cancel_by_one_of_three_callers_ends_the_job_for_all_and_says_who_did_it(seed: int) -> None:
    orders = tuple(Order(n=1, key="k", name=name, at_s=at_s) for at_s, name in enumerate("abc"))
    with Story("E6", seed, orders=orders, deed_of=lambda n, attempt: Deed(runs_s=60)) as story:
        impatient = story.ask(3, lambda client: client.wait("call-b", timeout_s=5))  # goes away, and ends nothing
        story.run(until_s=15)
        job = story.job("a")
        assert job is not None
        assert job.state == "running"
        assert impatient.error is not None

        story.ask(20, cancels("call-c", "carol"))
        story.run()

        assert story.job("b") is story.job("c") is None  # they share the first one's
        for name in "abc":
            answer = story.answers[name]
            assert (answer.job_id, answer.state) == (story.id_of("a"), "canceled")
            assert answer.error is not None
            assert answer.error.message == "canceled by carol: no longer wanted"
        assert story.told("a") == {f"http://{name}-0": 1 for name in "abc"}


@seeds
def test_e7_a_cancel_of_a_finished_job_says_so_and_the_result_stands(seed: int) -> None:
    with Story("E7", seed) as story:
        cancel = story.ask(30, cancels("call-job-1"))
        again = story.ask(31, lambda client: client.result("call-job-1"))
        story.run()

        assert (cancel.answer.canceled, cancel.answer.state) == (False, "finished")
        assert again.answer == story.answers["job-1"]
        assert again.answer.outputs["film"].key in story.checks.visible
        assert story.events("job-1", "canceled") == []
        assert story.told("job-1") == {"http://job-1-0": 1}
