"""The report of a run: understandable without any other page."""

from __future__ import annotations

from dataclasses import replace

from planrun.core.life import Outcome
from planrun.verify.observer import Count, Wrong
from planrun.verify.report import OUTCOMES, Report

COUNT = Count(
    jobs=20,
    submits=44,
    starts=31,
    takeovers=11,
    results=18,
    messages=20,
    repeats=1,
    ended={"finished": 18, "canceled": 2},
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
    assert came["messages"] == "20, one for each job; 1 came again, equal"
    assert came["attempts"] == "18 succeeded, 9 lost with a worker that was killed or silent, 2 canceled"
    assert came["lost"].startswith("0 jobs without an end")
    assert "messages" not in dict(replace(HELD, tells=False).what_came())


def test_every_end_of_an_attempt_has_its_words() -> None:
    assert set(OUTCOMES) == set(Outcome)
