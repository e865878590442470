"""The report of a run: understandable without any other page."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planrun.core.life import Outcome
from planrun.verify.observer import Count, Wrong
from planrun.verify.plan import Blow
from planrun.verify.report import DONE, OUTCOMES, Report, never_done

COUNT = Count(
    jobs=20,
    submits=44,
    starts=31,
    takeovers=11,
    asked=60,
    told=60,
    results=54,
    late_files=5,
    late_attempts=2,
    late_read=0,
    messages=20,
    repeats=1,
    ended={"finished": 18, "canceled": 2},
    gave_up=0,
    outcomes={"success": 18, "lost": 9, "canceled": 2},
    lost=0,
    doubled=0,
    overwritten=0,
    wrong=0,
)
HELD = Report(
    namespace="verify-1",
    url="/srv/planrun.db",
    seed=7,
    seconds=120.0,
    workers=3,
    slots=2,
    lease_s=3.0,
    processes=9,
    clients=3,
    done={"kill": 3, "freeze": 2},
    canceled=2,
    tells=True,
    not_tried=("cuts: there is no network",),
    count=COUNT,
    wrongs=(),
    folder="",
)


def test_what_held_is_said_in_one_line() -> None:
    assert HELD.held
    assert HELD.verdict.startswith("held: 20 jobs were started 31 times under 5 faults")
    assert "\n" not in HELD.verdict


@pytest.mark.parametrize(
    ("untested", "why"),
    [
        (replace(HELD, done={"kill": 0, "freeze": 0}), "no fault happened"),
        (replace(HELD, count=replace(COUNT, takeovers=0)), "no job was taken over"),
        (
            replace(HELD, count=replace(COUNT, ended={"given up after too many faults": 20}, gave_up=20)),
            "no job finished",
        ),
    ],
)
def test_a_run_in_which_nothing_was_tested_did_not_hold(untested: Report, why: str) -> None:
    assert not untested.held
    assert untested.verdict.startswith(f"nothing was tested: {why}")
    broken = replace(untested, wrongs=(Wrong("lost", "j1", "nobody was ever told how it ended"),))
    assert broken.verdict.startswith("BROKEN")


def test_jobs_that_were_given_up_are_in_the_verdict() -> None:
    assert (
        "each ended once, 2 of them given up after too many faults;"
        in replace(HELD, count=replace(COUNT, gave_up=2)).verdict
    )


def test_what_the_run_did_not_come_to_is_said_fault_by_fault() -> None:
    assert list(never_done(dict.fromkeys(Blow, 1), COUNT)) == []
    [freezes, late] = never_done({Blow.KILL: 1, Blow.FREEZE: 0}, replace(COUNT, late_files=0))

    assert freezes.startswith(DONE[Blow.FREEZE])
    assert late.startswith("late files: ")


def test_messages_that_did_not_come_and_answers_that_nobody_got_are_not_hidden() -> None:
    came = dict(replace(HELD, count=replace(COUNT, messages=17, told=55, late_read=1)).what_came())

    assert came["messages"] == "17, of 20 that were owed; 1 came again"
    assert came["answers"] == "55 told to 60 who waited"
    assert came["late files"] == "5, stored by 2 attempts that lost their job; 1 of them named in an answer"


def test_what_broke_names_its_jobs_and_what_could_not_be_tried_is_said() -> None:
    wrongs = tuple(Wrong("lost", f"j{n}", "nobody was ever told how it ended") for n in range(30))
    broken = replace(HELD, count=replace(COUNT, lost=30), wrongs=wrongs)
    said = list(broken.what_it_means())

    assert not broken.held
    assert broken.verdict.startswith("BROKEN: 30 lost, 0 doubled, 0 overwritten")
    assert said[0] == "lost: job j0: nobody was ever told how it ended"
    assert "and 10 more; --json has all of them" in said
    assert said[-1] == "not tried: cuts: there is no network"


def test_every_number_says_what_it_counts() -> None:
    done, came = dict(HELD.what_was_done()), dict(HELD.what_came())

    assert done["workers frozen past their lease"] == "2"
    assert "workers cut off the network" not in done
    assert came["messages"] == "20, one for each job; 1 came again"
    assert came["late files"] == "5, stored by 2 attempts that lost their job; no answer names one"
    assert came["attempts"] == "18 succeeded, 9 lost with a worker that was killed or silent, 2 canceled"
    assert came["lost"].startswith("0 jobs without an end")
    assert "messages" not in dict(replace(HELD, tells=False).what_came())


def test_every_end_of_an_attempt_has_its_words() -> None:
    assert set(OUTCOMES) == set(Outcome)
