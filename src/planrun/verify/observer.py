"""Counts what came of it, from what was seen outside planrun, and says what has to hold and does not.

It knows what the jobs noted by themselves, what each waiting client was told, the messages that arrived, the bytes that
lay in the store, read once when the answer was told and again at the end, and all that lies there beside them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planrun.client import Answer
from planrun.core.life import Outcome
from planrun.core.messages import AttemptRow
from planrun.verify.ends import AS_ASKED, GAVE_UP, asked_for, end_of, gives_up
from planrun.verify.story import Copy, Note, Story


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
    asked, told: How often a client waited for an answer, and how often it got one.
    results: Stored files that were read, and are those that the ledger says.
    late_files, late_attempts: Files that lie in the store in the end, and of how many attempts that did not win.
    late_read: Those of them that an answer or a message names.
    messages: Jobs of which one arrived.
    repeats: Further copies of them.
    ended: Jobs by how they ended.
    gave_up: Those that ended because too many of their attempts were hit.
    outcomes: Attempts by how they ended, as the ledger says it.
    lost, doubled, overwritten, wrong: Of each, how many jobs.
    """

    jobs: int
    submits: int
    starts: int
    takeovers: int
    asked: int
    told: int
    results: int
    late_files: int
    late_attempts: int
    late_read: int
    messages: int
    repeats: int
    ended: Mapping[str, int]
    gave_up: int
    outcomes: Mapping[str, int]
    lost: int
    doubled: int
    overwritten: int
    wrong: int


def judge(
    stories: Sequence[Story], starts: Sequence[Note], violations: Iterable[str], strangers: Iterable[Copy] = ()
) -> tuple[Count, list[Wrong]]:
    """Count, and find everything that must not be.

    Args:
        violations: Rules that the ledger itself finds broken.
        strangers: Messages of jobs that have no story.
    """
    started = _by_job(starts)
    wrongs = [Wrong("wrong", "", f"the ledger breaks a rule: {text}") for text in violations]
    wrongs += [
        Wrong("doubled", copy.result.job_id, "a message came of a job that nobody handed in") for copy in strangers
    ]
    for story in stories:
        wrongs += _at_once(story, started.get(story.ask.number, []))
        wrongs += _in_the_end(story)
    broken = {what: len({wrong.job for wrong in wrongs if wrong.what == what}) for what in _SORTS}
    copies = [len(story.copies) for story in stories]
    late = [files for story in stories for files in _late(story)]
    ends = [end_of(story.answer) for story in stories if story.answer is not None]
    count = Count(
        jobs=len(stories),
        submits=sum(story.submits for story in stories),
        starts=len(starts),
        takeovers=sum(len(of_job) - 1 for of_job in started.values()),
        asked=sum(story.asked for story in stories),
        told=sum(len(story.told) for story in stories),
        results=sum(_is_as_settled(story, key, sha) for story in stories for key, sha in _settled(story).items()),
        late_files=sum(map(len, late)),
        late_attempts=len(late),
        late_read=sum(len(_named(story) & files) for story in stories for files in _late(story)),
        messages=sum(map(bool, copies)),
        repeats=sum(number - 1 for number in copies if number),
        ended=_tallied(map(_end, stories)),
        gave_up=ends.count(GAVE_UP),
        outcomes=_tallied(outcome for story in stories for outcome in story.outcomes),
        **broken,
    )
    return count, wrongs


def wrongs_so_far(stories: Iterable[Story], starts: Sequence[Note]) -> list[Wrong]:
    """What must not be and shows before the end: of jobs whose answer everybody has who waits."""
    started = _by_job(starts)
    return [wrong for story in stories if story.is_over for wrong in _at_once(story, started.get(story.ask.number, []))]


def _by_job(starts: Iterable[Note]) -> Mapping[int, list[Note]]:
    started: dict[int, list[Note]] = {}
    for start in starts:
        started.setdefault(start.number, []).append(start)
    return started


def _tallied(words: Iterable[str]) -> Mapping[str, int]:
    return dict(sorted(Counter(words).items()))


_SORTS = ("lost", "doubled", "overwritten", "wrong")


def _at_once(story: Story, starts: Sequence[Note]) -> Iterable[Wrong]:
    """What shows as soon as all who wait were told."""
    name = story.named
    if len(story.told) < max(1, story.asked):
        yield Wrong("lost", name, f"of {story.asked} who waited, {len(story.told)} were told how it ended")
    if len(story.job_ids) > 1:
        yield Wrong("doubled", name, "one request became several jobs")
    if len(set(map(_canonical, story.told))) > 1:
        yield Wrong("doubled", name, "two who asked were told two answers")
    again = [attempt for attempt, times in Counter(start.attempt for start in starts).items() if times > 1]
    if again:
        yield Wrong("doubled", name, f"attempt {again[0]} was started twice")
    for key, digests in story.read.items():
        if None in digests:
            yield Wrong("lost", name, f"its file is not in the store: {key}")
    for key, sha256 in _settled(story).items():
        if {digest for digest in story.read.get(key, []) if digest not in (None, sha256)}:
            yield Wrong("overwritten", name, f"other bytes than were announced lie at {key}")
    if story.answer is not None:
        yield from _ended(story, story.answer, starts)


def _ended(story: Story, answer: Answer, starts: Sequence[Note]) -> Iterable[Wrong]:
    end, asked = end_of(answer), asked_for(story)
    if end not in asked and end != GAVE_UP:
        yield Wrong("wrong", story.named, f"it is {end}, and was to be {' or '.join(sorted(map(str, asked)))}")
    if not answer.ok:
        return
    value = answer.value if isinstance(answer.value, dict) else {}
    winner = Note(story.ask.number, answer.attempt, str(value.get("nonce")))
    if winner not in starts:
        yield Wrong("wrong", story.named, f"its answer is of an attempt {answer.attempt} that never started")
    if not answer.outputs:
        yield Wrong("wrong", story.named, "it finished without its files")
    for key in _settled(story):
        if story.heads.get(key, winner.head) != winner.head:
            yield Wrong("overwritten", story.named, f"another attempt wrote what lies at {key}")


def _in_the_end(story: Story) -> Iterable[Wrong]:
    """What shows once the ledger tells all attempts, messages had their time, and nothing more gets into the store."""
    answer, name = story.answer, story.named
    winners = _winners(story)
    if len(winners) > 1:
        yield Wrong("doubled", name, f"{len(winners)} of its attempts count as the one that succeeded")
    if answer is not None and answer.ok and answer.attempt not in {winner.attempt for winner in winners}:
        yield Wrong("wrong", name, f"attempt {answer.attempt} is answered, and is not the one that succeeded")
    if answer is not None and end_of(answer) == GAVE_UP and not gives_up(story.outcomes):
        yield Wrong("wrong", name, f"it was given up, and its attempts do not say why: {', '.join(story.outcomes)}")
    if story.told and story.owes_message and not story.copies:
        yield Wrong("lost", name, "its message never arrived")
    if len({copy.body for copy in story.copies}) > 1:  # which say the id of the message, too
        yield Wrong("doubled", name, "one subscriber got two messages, or one with two contents")
    elif answer is not None and not all(_says_so(copy, answer) for copy in story.copies):
        yield Wrong("doubled", name, "its message says another answer than whoever waited was told")
    named = _named(story)
    if read := sorted(named & {key for late in _late(story) for key in late}):
        yield Wrong("wrong", name, f"an answer names {len(read)} files of an attempt that did not win, as {read[0]}")
    won = {key for winner in winners for key in story.files_of(winner)}
    if story.told and (beside := sorted(won - named)):
        yield Wrong(
            "overwritten",
            name,
            f"{len(beside)} files lie with those of its winner and are in no answer, as {beside[0]}",
        )


def _winners(story: Story) -> list[AttemptRow]:
    return [attempt for attempt in story.attempts if attempt.outcome is Outcome.SUCCESS]


def _late(story: Story) -> list[set[str]]:
    """What attempts have stored that did not win, each by itself."""
    winners = _winners(story)
    return [files for attempt in story.attempts if attempt not in winners and (files := story.files_of(attempt))]


def _named(story: Story) -> set[str]:
    """Keys in every answer and message."""
    told = {output.key for answer in story.told for output in answer.outputs.values()}
    return told | {output.key for copy in story.copies for output in copy.result.outputs}


def _settled(story: Story) -> Mapping[str, str]:
    """The digests that the ledger has announced, by key."""
    return {output.key: output.sha256 for output in story.answer.outputs.values()} if story.answer else {}


def _is_as_settled(story: Story, key: str, sha256: str) -> bool:
    return set(story.read.get(key, [])) == {sha256}


def _says_so(copy: Copy, answer: Answer) -> bool:
    said = copy.result
    files = {output.key: output.sha256 for output in said.outputs}
    told = {output.key: output.sha256 for output in answer.outputs.values()}
    return (said.job_id, said.state, said.reason, said.attempt, said.value, said.error, files) == (
        *(answer.job_id, answer.state, answer.reason, answer.attempt, answer.value, answer.error),
        told,
    )


def _end(story: Story) -> str:
    """For people."""
    if story.answer is None:
        return "never"
    end = end_of(story.answer)
    if end == GAVE_UP:
        return "given up after too many faults"
    if end == AS_ASKED and story.ask.refuses:
        return "failed as asked"
    return str(end.state if end in asked_for(story) else end)


def _canonical(answer: Answer) -> str:
    """What was told, whoever asked where."""
    document: dict[str, Any] = answer.as_dict()
    for output in document["outputs"].values():
        del output["path"]
    return json.dumps(document, sort_keys=True)
