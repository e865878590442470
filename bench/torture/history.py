"""What the observer counts: from the lines that the jobs left, and from what it saw itself, whichever peer it was.

A history is a list of notes about one job. Beside those of the job (`bench/peers/note.py`) there are

    seen        the job's file shows the result of that attempt
    answered    the peer itself shows the result of that attempt
    gone        the process of that attempt is no more
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from bench.contender import Note
from bench.peers.note import ANSWERED, ENDED, STARTED

SEEN, GONE = "seen", "gone"


@dataclass(frozen=True)
class Counted:
    """Times are seconds from the disturbance; None: not as long as it was watched.

    Attributes:
        starts: Of the handler, in all.
        second_s: To the first start after it.
        result_s: To the moment at which a result could be read.
        at_once: Most attempts that ran at the same time.
        lost: There never was a result.
        overwritten: How often the file showed another result than before.
        late: How many of these were by an attempt that had begun before the one whose result it replaced.
        answers_overwritten, answers_late: The same of the peer's own store.
    """

    starts: int
    second_s: float | None
    result_s: float | None
    at_once: int
    lost: bool
    overwritten: int
    late: int
    answers_overwritten: int
    answers_late: int


def count(history: Iterable[Note], *, since_s: float, keeps_results: bool) -> Counted:
    """A peer that keeps results has to show one; for the others the file counts."""
    notes = sorted(history, key=lambda note: note.at_s)
    starts = [note.at_s for note in notes if note.word == STARTED]
    shown = [note for note in notes if note.word == (ANSWERED if keeps_results else SEEN)]
    changes, answers = changed(notes, SEEN), changed(notes, ANSWERED)
    return Counted(
        starts=len(starts),
        second_s=next((at_s - since_s for at_s in starts if at_s > since_s), None),
        result_s=shown[0].at_s - since_s if shown else None,
        at_once=at_once(notes),
        lost=not shown,
        overwritten=len(changes),
        late=late(changes),
        answers_overwritten=len(answers),
        answers_late=late(answers),
    )


def changed(notes: Sequence[Note], word: str) -> list[tuple[float, float]]:
    """Each time that another attempt's result was shown: whose before, whose after."""
    shown = [note.attempt for note in notes if note.word == word]
    return [(before, after) for before, after in pairwise(shown) if before != after]


def late(changes: Iterable[tuple[float, float]]) -> int:
    """Attempts are named by the time of their start."""
    return sum(after < before for before, after in changes)


def running(notes: Iterable[Note]) -> set[float]:
    """The attempts that have begun, and neither ended nor gone."""
    attempts: set[float] = set()
    for note in sorted(notes, key=lambda note: note.at_s):
        if note.word == STARTED:
            attempts.add(note.attempt)
        elif note.word in {ENDED, GONE}:
            attempts.discard(note.attempt)
    return attempts


def at_once(notes: Sequence[Note]) -> int:
    return max((len(running(notes[: index + 1])) for index in range(len(notes))), default=0)
