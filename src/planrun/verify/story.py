"""All that was seen of one job, from outside planrun: what its code noted, what was told, and what lay in the store."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from planrun.client import Answer
from planrun.core.life import Outcome
from planrun.core.messages import AttemptRow, Result
from planrun.core.names import attempt_prefix, live_log_prefix, log_key
from planrun.verify.plan import Ask


class Note(msgspec.Struct, frozen=True):
    """What job code wrote down itself, at its start or its end."""

    number: int
    attempt: int
    nonce: str

    @property
    def head(self) -> str:
        """The first line of each file that this attempt writes."""
        return f"{self.number} {self.attempt} {self.nonce}"


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
    """Attributes:
    job_ids: Every id that a client was given for it.
    submits: How often it was handed in.
    asked: How often somebody waited for its answer.
    told: The answers, as each of them was told.
    is_over: Everybody who waits was told, or has given up.
    attempts: As the ledger has them in the end, oldest first.
    owes_message: Somebody subscribed to its answer.
    read: By key, what lay in the store: digests of the bytes, in the order in which they were read. None: nothing.
    heads: By key, the first line of the file: which attempt wrote it.
    stored: Keys of all that lies below the job in the end, whoever put it there.
    """

    ask: Ask
    namespace: str
    job_ids: set[str] = field(default_factory=set)
    submits: int = 0
    asked: int = 0
    told: list[Answer] = field(default_factory=list)
    is_over: bool = False
    attempts: list[AttemptRow] = field(default_factory=list)
    owes_message: bool = False
    copies: list[Copy] = field(default_factory=list)
    read: dict[str, list[str | None]] = field(default_factory=dict)
    heads: dict[str, str] = field(default_factory=dict)
    stored: set[str] = field(default_factory=set)

    @property
    def answer(self) -> Answer | None:
        return self.told[0] if self.told else None

    @property
    def outcomes(self) -> list[Outcome]:
        """How its attempts ended."""
        return [attempt.outcome for attempt in self.attempts if attempt.outcome is not None]

    @property
    def named(self) -> str:
        """For people: the job, as the ledger knows it."""
        return " ".join(sorted(self.job_ids)) or f"number {self.ask.number}, which has no id"

    def saw_bytes(self, key: str, data: bytes | None) -> None:
        self.read.setdefault(key, []).append(None if data is None else hashlib.sha256(data).hexdigest())
        if data is not None:
            self.heads[key] = data.partition(b"\n")[0].decode(errors="replace")

    def files_of(self, attempt: AttemptRow) -> set[str]:
        """Keys of what an attempt has stored in the end."""
        return set(
            files_in(attempt_prefix(self.namespace, attempt.job_id, attempt.attempt, attempt.token), self.stored)
        )


def files_in(prefix: str, keys: Iterable[str]) -> list[str]:
    """The files of an attempt among some keys: whole ones, without what it printed."""
    beside = (log_key(prefix), live_log_prefix(prefix))
    return [key for key in keys if key.startswith(prefix) and not key.startswith(beside)]


def read_notes(file: Path) -> list[Note]:
    """Every note so far."""
    lines = file.read_bytes().splitlines() if file.exists() else []
    return [msgspec.json.decode(line, type=Note) for line in lines]
