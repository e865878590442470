"""Counts what came of it, from what was seen outside planrun, and says what has to hold and does not.

It knows what the jobs noted by themselves, what each waiting client was told, the messages that arrived, and the bytes
that lay in the store, read once when the answer was told and again at the end.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from planrun.client import Answer
from planrun.core.life import Outcome, Reason, State
from planrun.core.messages import Result
from planrun.verify.plan import Ask


class Start(msgspec.Struct, frozen=True):
    """One start of job code, as it noted it itself."""

    number: int
    attempt: int
    nonce: str


class Copy(msgspec.Struct, frozen=True):
    """What a message says.

    Attributes:
        body: All of it, as it arrived.
    """

    msg_id: str
    result: Result
    body: str = ""

    @classmethod
    def read(cls, body: str) -> Copy:
        return msgspec.structs.replace(msgspec.json.decode(body, type=cls), body=body)


@dataclass(eq=False)
class Story:
    """All that was seen of one job.

    Attributes:
        job_ids: Every id that a client was given for it.
        submits: How often it was handed in.
        told: The answers, as each client that asked was told.
        outcomes: How the ledger says that its attempts ended.
        owes_message: Somebody subscribed to its answer.
        read: By key, what lay in the store: digests of the bytes, in the order in which they were read. None: nothing.
        heads: By key, the first line of the file: which attempt wrote it.
    """

    ask: Ask
    job_ids: set[str] = field(default_factory=set)
    submits: int = 0
    told: list[Answer] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)
    owes_message: bool = False
    copies: list[Copy] = field(default_factory=list)
    read: dict[str, list[str | None]] = field(default_factory=dict)
    heads: dict[str, str] = field(default_factory=dict)

    @property
    def answer(self) -> Answer | None:
        return self.told[0] if self.told else None

    @property
    def named(self) -> str:
        """For people: the job, as the ledger knows it."""
        return " ".join(sorted(self.job_ids)) or f"number {self.ask.number}, which has no id"

    def saw_bytes(self, key: str, data: bytes | None) -> None:
        self.read.setdefault(key, []).append(None if data is None else hashlib.sha256(data).hexdigest())
        if data is not None:
            self.heads[key] = data.partition(b"\n")[0].decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Wrong:
    """One thing that must not be: `what` is lost, doubled, overwritten or wrong."""

    what: str
    job: str
    why: str


@dataclass(frozen=True, slots=True)
class Count:
    """Attributes:
    jobs, submits: Handed in, and how often in all.
    starts: Of job code, counted by the jobs themselves.
    takeovers: Starts after the first one of a job.
    results: Stored files that were read, and are those that the ledger says.
    messages: That arrived, each counted once.
    repeats: Further copies of them, equal to the first.
    ended: Jobs by how they ended.
    outcomes: Attempts by how they ended, as the ledger says it.
    lost, doubled, overwritten, wrong: Of each, how many jobs.
    """

    jobs: int
    submits: int
    starts: int
    takeovers: int
    results: int
    messages: int
    repeats: int
    ended: Mapping[str, int]
    outcomes: Mapping[str, int]
    lost: int
    doubled: int
    overwritten: int
    wrong: int


def read_starts(file: Path) -> list[Start]:
    """Every start so far."""
    lines = file.read_bytes().splitlines() if file.exists() else []
    return [msgspec.json.decode(line, type=Start) for line in lines]


def judge(stories: Sequence[Story], starts: Sequence[Start], violations: Iterable[str]) -> tuple[Count, list[Wrong]]:
    """Count, and find everything that must not be.

    Args:
        violations: Rules that the ledger itself finds broken.
    """
    started: dict[int, list[Start]] = {}
    for start in starts:
        started.setdefault(start.number, []).append(start)
    wrongs = [Wrong("wrong", "", f"the ledger breaks a rule: {text}") for text in violations]
    for story in stories:
        wrongs += _lost(story)
        wrongs += _doubled(story, started.get(story.ask.number, []))
        wrongs += _overwritten(story)
        wrongs += _wrong(story, started.get(story.ask.number, []))
    broken = {what: len({wrong.job for wrong in wrongs if wrong.what == what}) for what in _SORTS}
    copies = [len(story.copies) for story in stories]
    count = Count(
        jobs=len(stories),
        submits=sum(story.submits for story in stories),
        starts=len(starts),
        takeovers=sum(len(of_job) - 1 for of_job in started.values()),
        results=sum(_is_as_settled(story, key, sha) for story in stories for key, sha in _settled(story).items()),
        messages=sum(map(bool, copies)),
        repeats=sum(number - 1 for number in copies if number),
        ended=_tallied(map(_end, stories)),
        outcomes=_tallied(outcome for story in stories for outcome in story.outcomes),
        **broken,
    )
    return count, wrongs


def _tallied(words: Iterable[str]) -> Mapping[str, int]:
    return dict(sorted(Counter(words).items()))


_SORTS = ("lost", "doubled", "overwritten", "wrong")


def _lost(story: Story) -> Iterable[Wrong]:
    if not story.told:
        yield Wrong("lost", story.named, "nobody was ever told how it ended")
    elif story.owes_message and not story.copies:
        yield Wrong("lost", story.named, "its message never arrived")
    for key, digests in story.read.items():
        if None in digests:
            yield Wrong("lost", story.named, f"its file is not in the store: {key}")


def _doubled(story: Story, starts: Sequence[Start]) -> Iterable[Wrong]:
    if len(story.job_ids) > 1:
        yield Wrong("doubled", story.named, "one request became several jobs")
    if len(set(map(_canonical, story.told))) > 1:
        yield Wrong("doubled", story.named, "two who asked were told two answers")
    wins = story.outcomes.count(Outcome.SUCCESS)
    if wins > 1:
        yield Wrong("doubled", story.named, f"{wins} of its attempts count as the one that succeeded")
    if len({copy.body for copy in story.copies}) > 1:  # which say the id of the message, too
        yield Wrong("doubled", story.named, "one subscriber got two messages, or one with two contents")
    elif story.answer and not all(_says_so(copy, story.answer) for copy in story.copies):
        yield Wrong("doubled", story.named, "its message says another answer than whoever waited was told")
    again = [attempt for attempt, times in Counter(start.attempt for start in starts).items() if times > 1]
    if again:
        yield Wrong("doubled", story.named, f"attempt {again[0]} was started twice")


def _overwritten(story: Story) -> Iterable[Wrong]:
    for key, sha256 in _settled(story).items():
        others = {digest for digest in story.read.get(key, []) if digest not in (None, sha256)}
        if others:
            yield Wrong("overwritten", story.named, f"other bytes than were announced lie at {key}")


def _wrong(story: Story, starts: Sequence[Start]) -> Iterable[Wrong]:
    answer = story.answer
    if answer is None:
        return
    refused = answer.state is State.FAILED and answer.reason is Reason.PERMANENT
    if refused != story.ask.refuses and answer.state is not State.CANCELED and not _gave_up(answer):
        yield Wrong("wrong", story.named, f"it is {answer.state}, and was {'' if story.ask.refuses else 'not '}to fail")
    if answer.state is State.CANCELED and story.ask.cancel_after_s is None:
        yield Wrong("wrong", story.named, "it was canceled, and nobody asked for that")
    if answer.ok:
        value = answer.value if isinstance(answer.value, dict) else {}
        winner = f"{story.ask.number} {answer.attempt} {value.get('nonce')}"
        if winner not in {f"{start.number} {start.attempt} {start.nonce}" for start in starts}:
            yield Wrong("wrong", story.named, f"its answer is of an attempt {answer.attempt} that never started")
        if not answer.outputs:
            yield Wrong("wrong", story.named, "it finished without its file")
        for key in _settled(story):
            if story.heads.get(key, winner) != winner:
                yield Wrong("overwritten", story.named, f"another attempt wrote what lies at {key}")


def _settled(story: Story) -> Mapping[str, str]:
    """The digests that the ledger has announced, by key."""
    return {output.key: output.sha256 for output in story.answer.outputs.values()} if story.answer else {}


def _is_as_settled(story: Story, key: str, sha256: str) -> bool:
    return set(story.read.get(key, [])) == {sha256}


def _says_so(copy: Copy, answer: Answer) -> bool:
    said = copy.result
    files = {output.key: output.sha256 for output in said.outputs}
    told = {output.key: output.sha256 for output in answer.outputs.values()}
    return (said.job_id, said.state, said.attempt, files) == (answer.job_id, answer.state, answer.attempt, told)


def _gave_up(answer: Answer) -> bool:
    return answer.reason is Reason.EXHAUSTED


def _end(story: Story) -> str:
    answer = story.answer
    if answer is None:
        return "never"
    if _gave_up(answer):
        return "gave up after too many faults"
    if answer.state is State.FAILED:
        return "failed as asked"
    return str(answer.state)


def _canonical(answer: Answer) -> str:
    """What was told, whoever asked where."""
    document: dict[str, Any] = answer.as_dict()
    for output in document["outputs"].values():
        del output["path"]
    return json.dumps(document, sort_keys=True)
