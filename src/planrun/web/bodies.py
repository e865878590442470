"""What goes out, beside the messages that the client returns as they are."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from planrun import client
from planrun.client import Answer, AsyncJobHandle
from planrun.core.coverage import Coverage
from planrun.core.drains import Drain
from planrun.core.life import Reason, State
from planrun.core.messages import AttemptRow, EventRow, Failure, JobRow, Struct
from planrun.core.pauses import Pause
from planrun.core.presence import Presence


class Submitted(Struct, kw_only=True):
    """Attributes:
    disposition: `new`, `repeated` (same request), `joined` (same key, still open) or `answered` (stored result).
    """

    job_id: str
    disposition: str


class BulkReply(Struct, kw_only=True):
    jobs: tuple[Submitted, ...]


class RetryReply(Struct, kw_only=True):
    """Attributes:
    key_taken: Another job holds the key by now; the new one has none.
    """

    job_id: str
    retry_of: str
    key_taken: bool


class JobPage(Struct, kw_only=True):
    """Attributes:
    before: The cursor of the next page; null on the last one.
    """

    jobs: tuple[JobRow, ...]
    before: int | None = None


class OutputFile(Struct, kw_only=True):
    """Attributes:
    href: Where it is served. Its bytes never change.
    """

    href: str
    sha256: str
    bytes: int


class JobAnswer(Struct, kw_only=True):
    """How a job ended: the same for everyone who asks."""

    job_id: str
    state: State
    ok: bool
    reason: Reason | None = None
    attempt: int
    outputs: dict[str, OutputFile]
    value: Any = None
    error: Failure | None = None


class EventPage(Struct, kw_only=True):
    """Attributes:
    after: The cursor of the next page; null on the last one.
    """

    events: tuple[EventRow, ...]
    after: int | None = None


class AttemptList(Struct, kw_only=True):
    attempts: tuple[AttemptRow, ...]


class Progress(Struct, kw_only=True):
    """Where a job is, as the stream says it.

    Attributes:
        fraction: 0.0 … 1.0; null: unknown.
        message: What the job last said.
        left_s: How long it will still take; null: nobody knows.
    """

    job_id: str
    state: State
    attempt: int
    worker: str | None = None
    fraction: float | None = None
    message: str | None = None
    left_s: float | None = None


class KindList(Struct, kw_only=True):
    kinds: tuple[Coverage, ...]


class WorkerList(Struct, kw_only=True):
    workers: tuple[Presence, ...]


class DrainList(Struct, kw_only=True):
    drains: tuple[Drain, ...]


class DrainReply(Struct, kw_only=True):
    """Attributes:
    drained: Names of those that took jobs until now.
    """

    drained: tuple[str, ...]


class UndrainReply(Struct, kw_only=True):
    """Attributes:
    undone: Names of those that take jobs again; one that has begun to end cannot be called back.
    """

    undone: tuple[str, ...]


class PauseList(Struct, kw_only=True):
    pauses: tuple[Pause, ...]


class PauseReply(Struct, kw_only=True):
    """Attributes:
    paused: False: exactly this set was paused before.
    """

    paused: bool


class ResumeReply(Struct, kw_only=True):
    """Attributes:
    resumed: False: exactly this set was not paused.
    still_paused: What stays in force.
    """

    resumed: bool
    still_paused: tuple[Pause, ...]


class Counts(Struct, kw_only=True):
    """Jobs per state."""

    counts: dict[str, int]


class Health(Struct, kw_only=True):
    """The ledger answers."""

    ok: bool
    version: str


def submit_reply(job: AsyncJobHandle) -> Submitted:
    return Submitted(job_id=job.id, disposition=job.disposition)


def job_answer(answer: Answer) -> JobAnswer:
    return JobAnswer(
        job_id=answer.job_id,
        state=answer.state,
        ok=answer.ok,
        reason=answer.reason,
        attempt=answer.attempt,
        outputs={
            name: OutputFile(
                href=f"/v1/jobs/{answer.job_id}/outputs/{quote(name)}", sha256=file.sha256, bytes=file.bytes
            )
            for name, file in answer.outputs.items()
        },
        value=answer.value,
        error=answer.error,
    )


def progress_of(seen: client.Progress) -> Progress:
    job = seen.job
    return Progress(
        job_id=job.job_id,
        state=job.state,
        attempt=job.attempt,
        worker=job.worker,
        fraction=job.fraction,
        message=job.message,
        left_s=seen.left_s,
    )
