"""What the parts say to each other: plain, frozen, typed. The same structs cross a call, a file or a wire.

Times: `…_at_ms` are wall clock (UTC, for people), `…_until_ms` and `not_before_ms` are boottime of
the ledger's machine, `…_s` are durations. A struct never changes meaning; it only gains optional fields.
"""

from __future__ import annotations

from typing import Any, dataclass_transform

import msgspec
from msgspec.structs import astuple

from planrun.core.kinds import RESULT_TTL_S
from planrun.core.lease import LeaseMs
from planrun.core.life import Outcome, Reason, State


@dataclass_transform(frozen_default=True)
class Struct(msgspec.Struct, frozen=True, omit_defaults=True):
    """Base of all messages: immutable, defaults left out on the wire. (msgspec does not inherit `kw_only`.)"""


# --- submit -----------------------------------------------------------------------------------


class SubmitRequest(Struct, kw_only=True):
    """One submit call. `request_id` is the same on every retry of that call.

    Attributes:
        inputs: Input name → URI (a path on this box, or `file:`).
        content_hash: Digest of kind, version, inputs with their fingerprints, and params.
        request_hash: Digest of everything that the caller asked for.
        key: The operation asked for; equal keys join or get the stored answer. None: never joined.
        delay_s: Not before so many seconds from now.
        deadline_at_ms: Wall clock; the job fails if it has not ended by then.
        subscribers: Routes that get the answer (`webhook:…`, `command:…`).
    """

    request_id: str
    kind: str
    version: str = "v1"
    namespace: str = "default"
    inputs: dict[str, str] = {}
    params: dict[str, Any] = {}
    needs: tuple[str, ...] = ()
    content_hash: str
    request_hash: str
    key: str | None = None
    priority: int = 0
    delay_s: float = 0
    max_attempts: int = 4
    deadline_at_ms: int | None = None
    subscribers: tuple[str, ...] = ()
    retry_of: str | None = None  # the ended job that this one repeats: then `key` is taken only if it is free
    who: str = ""
    why: str = ""


class SubmitReply(Struct, kw_only=True):
    """`disposition`: `new`, `repeated` (same request), `joined` (same key, open) or `answered` (stored result)."""

    job_id: str
    disposition: str
    state: State


# --- the worker's side ------------------------------------------------------------------------


class Handler(Struct, kw_only=True):
    """What one worker can run. `missing` names the needs that this machine lacks: the kind is then not offered.

    Attributes:
        result_ttl_s: How long results of this kind and version are kept after their job ended.
    """

    kind: str
    version: str
    needs: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    result_ttl_s: float = RESULT_TTL_S


class WorkerRow(Struct, kw_only=True):
    """One worker process. `incarnation` is fresh at every start; everything that says "mine" carries it.

    Attributes:
        lock_file: Path of the file that the worker holds a flock on while it and its job trees live.
        lock_device, lock_inode: Identity of that file: another file at the same path proves nothing.
        pid: The worker's process id as seen by itself; a hint for a quick wake-up, never a proof.
        state: `ready`, `draining`, `broken` or `gone`.
        proof: Digest of the secret that proves its death from another machine. Said once, and shown to nobody.
    """

    incarnation: str
    name: str
    host: str
    namespaces: tuple[str, ...] = ("default",)
    slots: int
    capabilities: tuple[str, ...] = ()
    handlers: tuple[Handler, ...] = ()
    lock_file: str = ""
    lock_device: int = 0
    lock_inode: int = 0
    pid: int = 0
    state: str = "ready"
    seen_at_ms: int = 0
    proof: str = ""


class Lease(Struct, kw_only=True):
    """The identity that every write of a holder carries: the fence. `seal`, no part of it, proves who gave it out."""

    job_id: str
    attempt: int
    token: int
    seal: str = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lease) and astuple(self)[:3] == astuple(other)[:3]

    def __hash__(self) -> int:
        return hash(astuple(self)[:3])


class GrantRequest(Struct, kw_only=True):
    """Attributes:
    nonce: Fresh per grant, equal on its retries: a repeated call gets the same token.
    lease_ms: Length of the lease, milliseconds.
    seal: Of the offer.
    """

    job_id: str
    attempt: int
    incarnation: str
    nonce: str
    lease_ms: LeaseMs
    seal: str = ""


class CheckpointFile(Struct, kw_only=True):
    """One file of a checkpoint: its path inside the folder, and where its bytes lie."""

    name: str
    key: str
    sha256: str
    bytes: int


class Checkpoint(Struct, kw_only=True):
    """What a job left for its next attempt.

    Attributes:
        seq: Counts within the attempt that wrote it, from 1.
        format: The handler's own name for the layout (`resumable="fmt-1"`); another format is not resumed from.
    """

    attempt: int
    seq: int
    format: str
    files: tuple[CheckpointFile, ...] = ()


class Granted(Struct, kw_only=True, tag="granted", tag_field="answer"):
    """Everything that a worker needs to run one attempt."""

    lease: Lease
    namespace: str
    kind: str
    version: str
    inputs: dict[str, str] = {}
    params: dict[str, Any] = {}
    checkpoint: Checkpoint | None = None
    failures: int = 0
    losses: int = 0
    handbacks: int = 0


class Refused(Struct, kw_only=True, tag="refused", tag_field="answer"):
    """Attributes:
    why: `running`, `stale`, `ended`, `not-due`, `paused`, `ahead`, `unknown` or `not-ready` (this worker may not).
    """

    why: str


class Beat(Struct, kw_only=True):
    """One lease in a heartbeat, with what the job last said of itself.

    Attributes:
        fraction: 0.0 … 1.0, None if the job has said nothing new.
    """

    lease: Lease
    fraction: float | None = None
    message: str | None = None


class RenewRequest(Struct, kw_only=True):
    incarnation: str
    beats: tuple[Beat, ...]
    lease_ms: LeaseMs


class Standing(Struct, kw_only=True):
    """Whether an attempt still owns its job.

    Attributes:
        status: `held`, `lost` or `canceled`.
        why: For people: what ended it.
    """

    status: str
    why: str = ""


class Output(Struct, kw_only=True):
    """One kept file. `key` names it in the store, for ever: it is never overwritten."""

    name: str
    key: str
    sha256: str
    bytes: int


class Failure(Struct, kw_only=True):
    """Why an attempt or a job failed, for people and for programs.

    Attributes:
        message: One line where possible.
        code: Stable slug, such as `ffmpeg-bad-filter`, `signal`, `memory`, `stalled`.
        tail: The last lines that the job printed.
    """

    message: str
    code: str = ""
    tail: str = ""


class SettleRequest(Struct, kw_only=True):
    """How an attempt ended. Repeating it gives the same answer."""

    lease: Lease
    outcome: Outcome
    outputs: tuple[Output, ...] = ()
    value: Any = None
    error: Failure | None = None
    who: str = ""


class Settled(Struct, kw_only=True):
    """Attributes:
    status: `won`, `requeued` (recorded, another attempt follows), `lost`, `canceled` or `conflict` (same token,
        other outcome: an alarm).
    """

    status: str
    state: State | None = None
    why: str = ""


class ReleaseRequest(Struct, kw_only=True):
    """Hand a job back unharmed. `started` is False if the job code never began."""

    lease: Lease
    why: str
    started: bool = True
    who: str = ""


class CheckpointRequest(Struct, kw_only=True):
    lease: Lease
    checkpoint: Checkpoint


class CancelRequest(Struct, kw_only=True):
    namespace: str
    job_id: str
    who: str = ""
    why: str = ""


class CancelReply(Struct, kw_only=True):
    """`canceled`: True if this call ended the job; False if it had ended before."""

    canceled: bool
    state: State


# --- what people and programs read ------------------------------------------------------------


class Result(Struct, kw_only=True):
    """The one answer of an ended job. Immutable."""

    job_id: str
    namespace: str
    kind: str
    version: str
    state: State
    key: str | None = None
    reason: Reason | None = None
    attempt: int
    token: int | None = None
    outputs: tuple[Output, ...] = ()
    value: Any = None
    error: Failure | None = None
    ended_at_ms: int


class JobRow(Struct, kw_only=True):
    """A job as the ledger sees it at one instant."""

    job_id: str
    namespace: str
    kind: str
    version: str
    state: State
    reason: Reason | None = None
    key: str | None = None
    attempt: int
    failures: int
    max_attempts: int
    losses: int
    max_losses: int
    handbacks: int
    max_handbacks: int
    priority: int = 0
    needs: tuple[str, ...] = ()
    inputs: dict[str, str] = {}
    params: dict[str, Any] = {}
    token: int | None = None
    incarnation: str | None = None
    worker: str | None = None
    lease_until_ms: int | None = None
    not_before_ms: int = 0
    checkpoint: Checkpoint | None = None
    fraction: float | None = None
    message: str | None = None
    began_fraction: float | None = None  # where its progress began: at its first fraction, or where it jumped back
    began_at_ms: int | None = None
    closing: bool = False  # it has ended; how is said once that is written down in the store
    stopping: bool = False  # canceled, but its process tree is not yet known to be dead
    undelivered: int = 0  # routes that have not confirmed its answer; 0 in listings
    retry_of: str | None = None
    created_at_ms: int
    ended_at_ms: int | None = None
    deadline_at_ms: int | None = None


class AttemptRow(Struct, kw_only=True):
    """One attempt of a job."""

    job_id: str
    attempt: int
    token: int
    incarnation: str
    worker: str = ""
    granted_at_ms: int
    ended_at_ms: int | None = None
    outcome: Outcome | None = None
    error: Failure | None = None
    stopped: bool = False
    collected: bool = False


class EventRow(Struct, kw_only=True):
    """One line of a job's permanent history."""

    id: int
    job_id: str
    at_ms: int
    what: str
    attempt: int | None = None
    who: str = ""
    detail: str = ""


class Message(Struct, kw_only=True):
    """A stored answer that is owed to one subscriber. `body` is sent byte for byte at every try."""

    msg_id: str
    route: str
    body: str
    tries: int


class Due(Struct, kw_only=True):
    """What a sweep would find. Times are boottime milliseconds; None: nothing of that kind."""

    foreign_epoch: bool = False
    promotable: bool = False  # a delayed job has come due
    deadlines: bool = False
    messages: bool = False
    # Workers with something to prove: running rows, or attempts not known to be stopped.
    holders: tuple[WorkerRow, ...] = ()
    lease_ms: int | None = None  # when the first lease runs out
    next_ms: int | None = None  # the earliest time at which one of the above may become true
