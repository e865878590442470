"""Scenarios A1 to A9: what was asked for once is done once, whoever asks again, and whatever is lost on the way."""

from __future__ import annotations

import apsw
import pytest

from planrun.core.errors import Conflict
from planrun.core.life import Outcome
from planrun.sim.jobs import Deed
from planrun.sim.settings import Order
from tests.sim.story import Story, seeds


@seeds
def test_a1_a_submit_whose_answer_was_lost_is_made_again_and_is_one_job(seed: int) -> None:
    with Story("A1", seed) as story:
        story.when(lambda: story.job("job-1"), lambda: story.crash_now("app"))  # it is written, and nobody was told
        story.run()

        assert story.dispositions("job-1") == ["repeated"]
        assert story.count("job") == story.checks.counts.grants == 1
        assert story.answers["job-1"].job_id == story.id_of("job-1")


@seeds
def test_a2_the_same_key_for_something_else_is_refused_and_the_first_job_untouched(seed: int) -> None:
    orders = (Order(n=1, key="k", name="first"), Order(n=2, key="k", name="other", at_s=1, may_be_refused=True))
    with Story("A2", seed, orders=orders) as story:
        story.run(until_s=0.9)
        before = story.rows("SELECT * FROM job")
        reused = story.ask(1.5, lambda client: client.submit("render", params={"n": 3}, request_id="call-first"))
        story.run(until_s=2)
        assert story.rows("SELECT * FROM job") == before
        assert story.refused("other")
        assert isinstance(reused.error, Conflict)
        story.run()

        assert story.count("job") == 1
        assert story.answers["first"].value == {"n": 1}


@seeds
def test_a3_three_callers_at_the_same_instant_share_one_job_and_each_is_told(seed: int) -> None:
    orders = tuple(Order(n=1, key="k", name=name, at_s=1) for name in "abc")
    with Story("A3", seed, orders=orders) as story:
        story.run()

        [first] = [name for name in "abc" if story.job(name)]
        assert sorted(story.dispositions(name)[0] for name in "abc") == ["joined", "joined", "new"]
        assert story.told(first) == {f"http://{name}-0": 1 for name in "abc"}
        assert all(story.answers[name] == story.answers[first] for name in "abc")
        assert story.checks.counts.grants == len(story.starts) == 1
        assert story.count("subscriber") == story.count("outbox") == 3


@seeds
def test_a4_what_has_finished_is_answered_at_once_and_does_not_run_again(seed: int) -> None:
    orders = (Order(n=1, key="k", name="first"), Order(n=1, key="k", name="again", at_s=60))
    with Story("A4", seed, orders=orders) as story:
        story.run()

        assert story.dispositions("again") == ["answered"]
        assert story.answers["again"] == story.answers["first"]
        assert story.count("job") == story.checks.counts.grants == len(story.starts) == 1
        assert story.told("first") == {"http://first-0": 1, "http://again-0": 1}
        assert story.last_s("receiver") < 61


@seeds
@pytest.mark.parametrize("how", ["permanent", "exhausted", "canceled"])
def test_a5_after_a_job_that_did_not_finish_the_same_operation_is_a_fresh_job(seed: int, how: str) -> None:
    end = {"permanent": Outcome.PERMANENT, "exhausted": Outcome.TRANSIENT, "canceled": Outcome.SUCCESS}[how]
    cancel_after_s = 2 if how == "canceled" else None
    orders = (
        Order(n=1, key="k", name="first", max_attempts=2, cancel_after_s=cancel_after_s),
        Order(n=1, key="k", name="again", at_s=60),
    )

    def deed_of(n: int, attempt: int) -> Deed:
        return Deed(end=end if story.loop.now_s < 60 else Outcome.SUCCESS)

    with Story("A5", seed, orders=orders, deed_of=deed_of) as story:
        story.run()

        first, again = story.job("first"), story.job("again")
        assert first is not None
        assert again is not None
        assert (first.state, first.reason) == (("canceled", None) if how == "canceled" else ("failed", how))
        assert (again.state, again.attempt, again.budgets) == ("finished", 1, (0, 0, 0))
        assert story.dispositions("again") == ["new"]
        assert story.told("first") == {"http://first-0": 1}
        assert story.told("again") == {"http://again-0": 1}


@seeds
def test_a6_who_dies_before_the_submit_is_written_finds_nothing_and_asks_again(seed: int) -> None:
    with Story("A6", seed) as story:
        story.crash("app", at="ledger:before-commit")
        story.run(until_s=1)
        assert story.count("job") == 0
        story.run()

        assert story.dispositions("job-1") == ["new"]
        assert story.count("job") == 1
        assert story.answers["job-1"].state == "finished"


@seeds
def test_a7_a_submit_to_a_full_disk_is_refused_whole_and_running_jobs_stay(seed: int) -> None:
    full = apsw.FullError("database or disk is full")
    orders = (Order(n=1), Order(n=2, at_s=5))
    with Story("A7", seed, orders=orders, lease_s=30, deed_of=lambda n, attempt: Deed(runs_s=20)) as story:
        story.disk_fails(full, from_s=4, until_s=18)
        two = story.ask(6, lambda client: client.submit("render", params={"n": 3}, timeout_s=2))
        story.run(until_s=17)
        assert story.count("job") == story.count("subscriber") == 1
        assert two.error is not None
        assert "full" in str(two.error)
        story.run()

        assert story.count("job") == 2
        first = story.job("job-1")
        assert first is not None
        assert (first.attempt, first.budgets) == (1, (0, 0, 0))
        assert [answer.state for answer in story.answers.values()] == ["finished", "finished"]
        assert len(story.starts) == 2


@seeds
def test_a8_a_submit_that_a_relay_repeats_is_one_job(seed: int) -> None:
    """What a queue in front of the ledger keeps while that is away, its relay hands in later, and perhaps twice: the
    request id was made before. (There is no such relay in planrun yet; this is what the ledger does with its calls.)"""
    back_s = 60

    def relay(client):  # type: ignore[no-untyped-def]
        return client.submit("render", params={"n": 1}, request_id="call-job-1", subscribers=["webhook:http://job-1-0"])

    with Story("A8", seed, orders=(Order(n=1, at_s=back_s + 1),)) as story:
        first = story.ask(back_s, relay)
        again = story.ask(back_s, relay)
        late = story.ask(back_s + 60, relay)
        story.run()

        assert {heard.answer.id for heard in (first, again, late)} == {story.id_of("job-1")}
        assert sorted(heard.answer.disposition for heard in (first, again, late)) == ["new", "repeated", "repeated"]
        assert story.count("job") == len(story.starts) == 1
        assert story.told("job-1") == {"http://job-1-0": 1}


@seeds
def test_a9_two_requests_race_for_one_key_and_both_get_the_same_job(seed: int) -> None:
    orders = (Order(n=1, key="k", name="one", at_s=1), Order(n=1, key="k", name="two", at_s=1, priority=5))
    with Story("A9", seed, orders=orders) as story:
        story.run()

        assert story.answers["one"].job_id == story.answers["two"].job_id
        assert sorted(story.dispositions(name)[0] for name in ("one", "two")) == ["joined", "new"]
        assert story.count("job") == len(story.starts) == 1
        assert story.rows("SELECT priority FROM job") == [(5,)]
