"""What a run of the lab left behind: what the parties did, in virtual time, as four lanes.

A history holds facts of the run and what follows from them; the page and the terminal only draw it.
"""

from __future__ import annotations

from enum import StrEnum

from planrun.core.messages import Struct
from planrun.sim.lab.settings import Settings


class Lane(StrEnum):
    A = "a"
    B = "b"
    LEDGER = "ledger"
    STORE = "store"


WORKERS = (Lane.A, Lane.B)


class What(StrEnum):
    """One thing that happened. The lane is who did it; `by` is the worker that it was about."""

    SUBMIT = "submit"
    GRANT = "grant"
    RENEW = "renew"
    UNHEARD = "unheard"
    NEWS = "news"
    FREEZE = "freeze"
    THAW = "thaw"
    CRASH = "crash"
    START = "start"
    TERM = "term"
    CUT = "cut"
    HEAL = "heal"
    EXPIRE = "expire"
    PROOF = "proof"
    BACK = "back"
    HELD = "held"
    TRUSTS = "trusts"
    NOT_HELD = "not-held"
    UPLOAD = "upload"
    STOPPED = "stopped"
    STORE = "store"
    ASIDE = "aside"
    OVERWRITE = "overwrite"
    REPLACE = "replace"
    REFUSE = "refuse"
    WON = "won"
    LOST = "lost"
    RETRY = "retry"
    FAILED = "failed"
    ANNOUNCE = "announce"


class Bar(StrEnum):
    """Something that lasts."""

    HOLDS = "holds"
    RUNS = "runs"
    UPLOADS = "uploads"
    FROZEN = "frozen"
    DOWN = "down"
    CUT = "cut"
    READS = "reads"


class Tone(StrEnum):
    """How a reader should take it: as it should be, noteworthy, a guard that held, or harm."""

    PLAIN = "plain"
    TROUBLE = "trouble"
    GUARD = "guard"
    HARM = "harm"


class Fact(Struct, kw_only=True):
    """Something that the run saw happen.

    Attributes:
        token: As people see it: 33, then 34.
        by: The worker that it is about, where the ledger or the store did it.
        than: The other token, of two that met.
    """

    at_ms: int
    lane: Lane
    what: What
    token: int | None = None
    by: Lane | None = None
    than: int | None = None


class Span(Struct, kw_only=True):
    lane: Lane
    bar: Bar
    from_ms: int
    to_ms: int
    token: int | None = None
    by: Lane | None = None


class Point(Fact, kw_only=True):
    """Attributes:
    says: What happened, for people.
    tone: `plain`, `trouble`, `guard` or `harm`.
    is_minor: One of many like it, such as a renewal.
    """

    says: str = ""
    tone: Tone = Tone.PLAIN
    is_minor: bool = False


class Tally(Struct, kw_only=True):
    """What came of the one job.

    Attributes:
        starts: How often it was started.
        files: How many files were stored.
        overwritten: How many of those that were announced, or would have been, were written over by an older attempt.
        refused: How often a stale attempt was turned away.
        answers: How many answers went out.
    """

    starts: int
    files: int
    overwritten: int
    refused: int
    answers: int


class History(Struct, kw_only=True):
    """Attributes:
    until_ms: Where the picture ends.
    sentence: Who overwrote whom, or who was refused and why.
    tone: Of the sentence.
    is_lab_store: The store is the lab's, with one key per job, not planrun's.
    is_fleet: The parties are on machines of their own; else A and B share a box.
    link: The query of the page that makes the same run.
    command: What makes it in a terminal.
    """

    settings: Settings
    until_ms: int
    spans: tuple[Span, ...]
    points: tuple[Point, ...]
    sentence: str
    tone: Tone
    tally: Tally
    is_lab_store: bool
    is_fleet: bool
    link: str
    command: str
