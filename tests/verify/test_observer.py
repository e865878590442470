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
from planrun.core.life import Outcome, Reason, State
from planrun.core.messages import AttemptRow, Failure, Output, Result
from planrun.core.names import attempt_prefix, log_key, object_key
from planrun.storage.contract import Store
from planrun.verify.kinds import REFUSED
from planrun.verify.observer import judge, wrongs_so_far
from planrun.verify.plan import Ask, Way
from planrun.verify.story import Copy, Note, Story, read_notes

EARLIER, WINNER = (attempt_prefix("ns", "j1", attempt, token) for attempt, token in ((1, 4), (2, 5)))
BYTES = b"0 2 n2\nwhat attempt 2 wrote"
KEY = object_key(WINNER, hashlib.sha256(BYTES).hexdigest(), "out")
LATE = object_key(EARLIER, hashlib.sha256(b"0 1 n1\n").hexdigest(), "out")
STARTS = [Note(0, 1, "n1"), Note(0, 2, "n2")]


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


def failed(reason: Reason | None, code: str, *, state: State = State.FAILED) -> Answer:
    """What a client is told of job j1, which did not finish."""
    return answered(state=state, reason=reason, outputs={}, value=None, error=Failure(message="so", code=code))


def attempts(*outcomes: Outcome) -> list[AttemptRow]:
    return [
        AttemptRow(job_id="j1", attempt=n, token=n + 3, incarnation="i", granted_at_ms=0, outcome=outcome)
        for n, outcome in enumerate(outcomes, 1)
    ]


def copy(*, job_id: str = "j1", msg_id: str = "m1", attempt: int = 2, key: str = KEY, note: str = "") -> Copy:
    outputs = tuple(
        Output(name=name, key=key, sha256=o.sha256, bytes=o.bytes) for name, o in answered().outputs.items()
    )
    result = Result(
        job_id=job_id,
        namespace="ns",
        kind="verify-work",
        version="v1",
        state=State.FINISHED,
        attempt=attempt,
        outputs=outputs,
        value=answered().value,
        ended_at_ms=0,
    )
    body = {"msg_id": msg_id, "result": msgspec.to_builtins(result), "note": note}
    return Copy.read(msgspec.json.encode(body).decode())


def story(*, refuses: bool = False, cancel_after_s: float | None = None) -> Story:
    """A job that was taken over once, and whose story is whole."""
    ask = Ask(0, 0.0, Way.KEYED, 1.0, 100, refuses, cancel_after_s)
    made = Story(ask, "ns", job_ids={"j1"}, submits=3, asked=2, told=[answered(), answered()], owes_message=True)
    made.is_over = True
    made.attempts = attempts(Outcome.LOST, Outcome.SUCCESS)
    made.copies = [copy(), copy()]
    made.stored = {KEY, log_key(WINNER), log_key(EARLIER)}
    for _ in range(2):
        made.saw_bytes(KEY, BYTES)
    return made


def without_success(
    answer: Answer, *outcomes: Outcome, refuses: bool = False, cancel_after_s: float | None = None
) -> Story:
    """A job that did not finish, and nobody subscribed to."""
    made = story(refuses=refuses, cancel_after_s=cancel_after_s)
    made.told, made.attempts = [answer, answer], attempts(*outcomes)
    made.copies, made.owes_message = [], False
    made.stored, made.read, made.heads = set(), {}, {}
    return made


def found(one: Story, starts: list[Note] = STARTS) -> set[str]:
    return {wrong.what for wrong in judge([one], starts, [])[1]}


def test_a_whole_story_is_counted_and_nothing_is_wrong_with_it() -> None:
    count, wrongs = judge([story()], STARTS, [])

    assert wrongs == []
    assert (count.jobs, count.submits, count.starts, count.takeovers) == (1, 3, 2, 1)
    assert (count.asked, count.told, count.gave_up) == (2, 2, 0)
    assert (count.results, count.messages, count.repeats) == (1, 1, 1)
    assert (count.late_files, count.late_attempts, count.late_read) == (0, 0, 0)
    assert (count.ended, count.outcomes) == ({"finished": 1}, {"lost": 1, "success": 1})
    assert (count.lost, count.doubled, count.overwritten, count.wrong) == (0, 0, 0, 0)


def names_a_late_file(one: Story) -> None:
    one.stored.add(LATE)
    one.copies.append(copy(key=LATE))


PLANTED: dict[str, tuple[str, Callable[[Story], object]]] = {
    "it never ended": ("lost", lambda one: one.told.clear()),
    "one of those who wait was never told": ("lost", lambda one: one.told.pop()),
    "its message never came": ("lost", lambda one: one.copies.clear()),
    "its file has gone": ("lost", lambda one: one.saw_bytes(KEY, None)),
    "a second job for the same request": ("doubled", lambda one: one.job_ids.add("j2")),
    "a second answer for another who asked": ("doubled", lambda one: one.told.append(answered(attempt=1))),
    "a second message for the same subscriber": ("doubled", lambda one: one.copies.append(copy(msg_id="m2"))),
    "the message again, with other bytes": ("doubled", lambda one: one.copies.append(copy(note="!"))),
    "two winning attempts": ("doubled", lambda one: one.attempts.extend(attempts(*[Outcome.SUCCESS] * 3)[2:])),
    "an attempt that is answered and did not win": ("wrong", lambda one: one.attempts.pop()),
    "a message that names a late file": ("wrong", names_a_late_file),
    "a late file beside those of the winner": ("overwritten", lambda one: one.stored.add(f"{KEY}2")),
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
    assert found(story(), [*STARTS, Note(0, 2, "n3")]) == {"doubled"}


AS_ASKED = failed(Reason.PERMANENT, REFUSED)
CANCELED = failed(None, "canceled", state=State.CANCELED)


def test_a_job_that_fails_as_it_was_asked_to_is_fine() -> None:
    one = without_success(AS_ASKED, Outcome.PERMANENT, refuses=True)

    assert found(one) == set()
    assert judge([one], STARTS, [])[0].ended == {"failed as asked": 1}


@pytest.mark.parametrize(
    "answer",
    [
        AS_ASKED,
        failed(Reason.PERMANENT, "missing"),
        failed(Reason.UNSUPPORTED, "unsupported"),
        failed(Reason.DEADLINE, "deadline"),
        failed(Reason.EXHAUSTED, "other"),
        CANCELED,
    ],
)
def test_a_job_that_ends_otherwise_than_it_was_asked_to_is_found(answer: Answer) -> None:
    one = without_success(answer, Outcome.PERMANENT)

    assert found(one) == {"wrong"}
    assert "as asked" not in str(judge([one], STARTS, [])[0].ended)


@pytest.mark.parametrize("answer", [failed(Reason.PERMANENT, "import"), failed(Reason.UNSUPPORTED, REFUSED)])
def test_a_job_that_fails_otherwise_than_it_was_asked_to_is_found(answer: Answer) -> None:
    assert found(without_success(answer, Outcome.PERMANENT, refuses=True)) == {"wrong"}
    assert found(story(refuses=True)) == {"wrong"}, "it finished"


def test_a_job_that_was_canceled_as_asked_is_fine() -> None:
    assert found(without_success(CANCELED, Outcome.CANCELED, cancel_after_s=1.0)) == set()


@pytest.mark.parametrize(
    ("outcomes", "what"),
    [
        ([Outcome.LOST] * 8, set()),
        ([Outcome.TRANSIENT] * 20, set()),
        ([Outcome.LOST] * 7, {"wrong"}),
        ([Outcome.TRANSIENT] * 19, {"wrong"}),
        ([], {"wrong"}),
        ([Outcome.LOST] * 9, {"wrong"}),
    ],
)
def test_a_job_is_given_up_only_where_its_attempts_explain_it(outcomes: list[Outcome], what: set[str]) -> None:
    one = without_success(failed(Reason.EXHAUSTED, "exhausted"), *outcomes)
    count, wrongs = judge([one], STARTS, [])

    assert {wrong.what for wrong in wrongs} == what
    assert count.gave_up == 1


def test_late_files_are_counted_and_are_nobodys_fault() -> None:
    one = story()
    one.stored |= {LATE, f"{LATE}2"}
    count, wrongs = judge([one], STARTS, [])

    assert wrongs == []
    assert (count.late_files, count.late_attempts, count.late_read) == (2, 1, 0)


def test_a_late_file_that_somebody_was_told_of_is_counted() -> None:
    one = story()
    names_a_late_file(one)

    assert judge([one], STARTS, [])[0].late_read == 1


def test_a_message_of_a_job_that_nobody_handed_in_is_found() -> None:
    [wrong] = judge([story()], STARTS, [], [copy(job_id="j9")])[1]

    assert (wrong.what, wrong.job) == ("doubled", "j9")


def test_while_it_runs_what_only_shows_in_the_end_is_not_missed() -> None:
    unfinished, ended, broken = story(), story(), story()
    unfinished.is_over, unfinished.told = False, []
    ended.copies, ended.attempts, ended.stored = [], [], set()
    broken.told.pop()

    assert wrongs_so_far([unfinished, ended], STARTS) == []
    assert [wrong.what for wrong in wrongs_so_far([ended, broken], STARTS)] == ["lost"]


def test_an_answer_of_an_attempt_that_never_started_is_found() -> None:
    assert found(story(), STARTS[:1]) == {"wrong"}


def test_a_rule_that_the_ledger_finds_broken_is_said() -> None:
    [wrong] = judge([story()], STARTS, ["job j9 has two results"])[1]

    assert "job j9 has two results" in wrong.why


def test_starts_are_read_as_the_jobs_wrote_them(tmp_path: Path) -> None:
    notes = tmp_path / "starts"
    notes.write_text('{"number": 3, "attempt": 1, "nonce": "ab"}\n')

    assert read_notes(notes) == [Note(3, 1, "ab")]
    assert read_notes(tmp_path / "none") == []
