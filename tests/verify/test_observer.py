"""What is planted is found: the observer of a run sees every way in which the promise can break."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import msgspec
import pytest

from planrun.client import Answer, OutputFile
from planrun.core.life import Reason, State
from planrun.core.messages import Output, Result
from planrun.storage.contract import Store
from planrun.verify.observer import Copy, Start, Story, judge, read_starts
from planrun.verify.plan import Ask, Way

KEY = "ns/jobs/j1/2-5/sha/out"
BYTES = b"0 2 n2\nwhat attempt 2 wrote"
STARTS = [Start(0, 1, "n1"), Start(0, 2, "n2")]
FAILED: dict[str, Any] = {"state": State.FAILED, "reason": Reason.PERMANENT, "outputs": {}, "value": None}


def answered(**other: Any) -> Answer:
    """What a client is told of job j1, which finished at its second attempt."""
    sha256 = hashlib.sha256(BYTES).hexdigest()
    told: dict[str, Any] = {
        "job_id": "j1",
        "state": State.FINISHED,
        "reason": None,
        "attempt": 2,
        "outputs": {"out": OutputFile(KEY, sha256, len(BYTES), None, cast("Store", None))},
        "value": {"attempt": 2, "nonce": "n2"},
        "error": None,
    }
    told |= other
    return Answer(**{**told, "outputs": MappingProxyType(told["outputs"])})


def copy(*, msg_id: str = "m1", attempt: int = 2, note: str = "") -> Copy:
    outputs = tuple(
        Output(name=name, key=o.key, sha256=o.sha256, bytes=o.bytes) for name, o in answered().outputs.items()
    )
    result = Result(
        job_id="j1",
        namespace="ns",
        kind="verify-work",
        version="v1",
        state=State.FINISHED,
        attempt=attempt,
        outputs=outputs,
        ended_at_ms=0,
    )
    body = {"msg_id": msg_id, "result": msgspec.to_builtins(result), "note": note}
    return Copy.read(msgspec.json.encode(body).decode())


def story(*, refuses: bool = False, cancel_after_s: float | None = None) -> Story:
    """A job that was taken over once, and whose story is whole."""
    ask = Ask(0, 0.0, Way.KEYED, 1.0, 100, refuses, cancel_after_s)
    made = Story(ask, job_ids={"j1"}, submits=3, told=[answered(), answered()], owes_message=True)
    made.outcomes = ["lost", "success"]
    made.copies = [copy(), copy()]
    for _ in range(2):
        made.saw_bytes(KEY, BYTES)
    return made


def found(one: Story, starts: list[Start] = STARTS) -> set[str]:
    return {wrong.what for wrong in judge([one], starts, [])[1]}


def test_a_whole_story_is_counted_and_nothing_is_wrong_with_it() -> None:
    count, wrongs = judge([story()], STARTS, [])

    assert wrongs == []
    assert (count.jobs, count.submits, count.starts, count.takeovers) == (1, 3, 2, 1)
    assert (count.results, count.messages, count.repeats) == (1, 1, 1)
    assert (count.ended, count.outcomes) == ({"finished": 1}, {"lost": 1, "success": 1})
    assert (count.lost, count.doubled, count.overwritten, count.wrong) == (0, 0, 0, 0)


PLANTED: dict[str, tuple[str, Callable[[Story], object]]] = {
    "it never ended": ("lost", lambda one: one.told.clear()),
    "its message never came": ("lost", lambda one: one.copies.clear()),
    "its file has gone": ("lost", lambda one: one.saw_bytes(KEY, None)),
    "a second job for the same request": ("doubled", lambda one: one.job_ids.add("j2")),
    "a second answer for another who asked": ("doubled", lambda one: one.told.append(answered(attempt=1))),
    "a second message for the same subscriber": ("doubled", lambda one: one.copies.append(copy(msg_id="m2"))),
    "the message again, with other bytes": ("doubled", lambda one: one.copies.append(copy(note="!"))),
    "two winning attempts": ("doubled", lambda one: one.outcomes.append("success")),
    "a byte that was overwritten": ("overwritten", lambda one: one.saw_bytes(KEY, BYTES[:-1] + b"!")),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_what_is_planted_is_found(planted: str) -> None:
    what, plant = PLANTED[planted]
    one = story()
    plant(one)

    assert what in found(one)


def test_a_message_that_says_another_answer_is_found() -> None:
    one = story()
    one.copies = [copy(attempt=1)]

    assert found(one) == {"doubled"}


def test_bytes_of_another_attempt_are_found_although_their_digest_is_as_settled() -> None:
    one = story()
    one.heads[KEY] = "0 1 n1"

    assert found(one) == {"overwritten"}


def test_an_attempt_that_was_started_twice_is_found() -> None:
    assert found(story(), [*STARTS, Start(0, 2, "n3")]) == {"doubled"}


def test_a_job_that_was_to_fail_and_finished_is_found_and_the_other_way_round() -> None:
    other = story()
    other.told = [answered(**FAILED)]
    other.owes_message = False
    other.copies = []

    assert found(story(refuses=True)) == {"wrong"}
    assert found(other) == {"wrong"}


def test_a_job_that_nobody_canceled_is_found_and_one_that_was_is_fine() -> None:
    canceled = story()
    canceled.told = [answered(**{**FAILED, "state": State.CANCELED, "reason": None})]
    canceled.copies, canceled.owes_message = [], False
    asked = story(cancel_after_s=1.0)
    asked.told, asked.copies, asked.owes_message = canceled.told, [], False

    assert found(canceled) == {"wrong"}
    assert found(asked) == set()


def test_an_answer_of_an_attempt_that_never_started_is_found() -> None:
    assert found(story(), STARTS[:1]) == {"wrong"}


def test_a_rule_that_the_ledger_finds_broken_is_said() -> None:
    [wrong] = judge([story()], STARTS, ["job j9 has two results"])[1]

    assert "job j9 has two results" in wrong.why


def test_starts_are_read_as_the_jobs_wrote_them(tmp_path: Path) -> None:
    notes = tmp_path / "starts"
    notes.write_text('{"number": 3, "attempt": 1, "nonce": "ab"}\n')

    assert read_starts(notes) == [Start(3, 1, "ab")]
    assert read_starts(tmp_path / "none") == []
