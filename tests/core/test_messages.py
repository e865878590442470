"""Messages survive a file or a wire unchanged, and cannot be changed in place."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec
import pytest
from msgspec import structs

from planrun.core import coverage, keeping, listing, messages, offers, pauses, printed, why
from planrun.core.coverage import Coverage, OpenJobs
from planrun.core.keeping import Archived, Garbage, Glance, Keep, Owed, Record, Stale
from planrun.core.lease import LEASE_S_MAX
from planrun.core.life import Outcome, Reason, State
from planrun.core.listing import ListQuery
from planrun.core.machines import MachineClass
from planrun.core.messages import (
    AttemptRow,
    Beat,
    CancelReply,
    CancelRequest,
    Checkpoint,
    CheckpointFile,
    CheckpointRequest,
    Due,
    EventRow,
    Failure,
    Granted,
    GrantRequest,
    Handler,
    JobRow,
    Lease,
    Message,
    Output,
    Refused,
    ReleaseRequest,
    RenewRequest,
    Result,
    Settled,
    SettleRequest,
    Standing,
    Struct,
    SubmitReply,
    SubmitRequest,
    WorkerRow,
)
from planrun.core.offers import Offer, OfferQuery
from planrun.core.pauses import Pause, PauseRequest
from planrun.core.printed import LogPiece
from planrun.core.why import Ahead, Cause, Offering, Outlook, Why

LEASE = Lease(job_id="j", attempt=2, token=1 << 40 | 7)
OUTPUT = Output(name="out.mp4", key="d/jobs/j/2-7/ab/out.mp4", sha256="ab", bytes=3)
FAILURE = Failure(message="no such filter: 'sclae' – ü", code="ffmpeg-bad-filter", tail="line 1\nline 2")
HANDLER = Handler(kind="preview", version="v2", needs=("ffmpeg",), missing=("gpu",))
CHECKPOINT = Checkpoint(
    attempt=1, seq=3, format="fmt-1", files=(CheckpointFile(name="a/b", key="k", sha256="ab", bytes=1),)
)
WORKER = WorkerRow(incarnation="i", name="w1", host="box", slots=2, capabilities=("ffmpeg",), handlers=(HANDLER,))

PAUSE = Pause(namespace="", kind="preview", paused_at_ms=1, who="ann", resumed_at_ms=2)
ROW = JobRow(
    job_id="j", namespace="default", kind="preview", version="v1", state=State.RUNNING, attempt=1, failures=0,
    max_attempts=4, losses=0, max_losses=8, handbacks=0, max_handbacks=20, created_at_ms=1, checkpoint=CHECKPOINT,
)  # fmt: skip
MACHINES = MachineClass(name="gpu-box", kinds=("preview v1",), capabilities=("gpu",))
SAMPLES: list[Struct] = [
    SubmitRequest(
        request_id="r", kind="preview", content_hash="c", request_hash="h", params={"a": [1, None, {"b": 0.5}]},
        inputs={"upload": "/in/42.mov"}, needs=("ffmpeg",), key="k", subscribers=("webhook:x",), deadline_at_ms=5,
    ),
    SubmitReply(job_id="j", disposition="new", state=State.QUEUED),
    HANDLER,
    WORKER,
    LEASE,
    Offer(job_id="j", attempt=1, namespace="default", kind="preview", version="v1"),
    OfferQuery(namespaces=("default",), handlers=(HANDLER,), capabilities=("ffmpeg",), limit=3),
    GrantRequest(job_id="j", attempt=1, incarnation="i", nonce="n", lease_ms=60_000),
    CHECKPOINT,
    CHECKPOINT.files[0],
    CheckpointRequest(lease=LEASE, checkpoint=CHECKPOINT),
    Granted(lease=LEASE, namespace="default", kind="preview", version="v1", checkpoint=CHECKPOINT),
    Refused(why="running"),
    Beat(lease=LEASE, fraction=0.25, message="encoding"),
    RenewRequest(incarnation="i", beats=(Beat(lease=LEASE),), lease_ms=60_000),
    Standing(status="canceled", why="by ann"),
    OUTPUT,
    FAILURE,
    SettleRequest(lease=LEASE, outcome=Outcome.SUCCESS, outputs=(OUTPUT,), value={"frames": 24}),
    Settled(status="won", state=State.FINISHED),
    ReleaseRequest(lease=LEASE, why="deploy", started=False),
    CancelRequest(namespace="default", job_id="j", who="ann"),
    CancelReply(canceled=True, state=State.CANCELED),
    Result(
        job_id="j", namespace="default", kind="preview", version="v1", state=State.FAILED, reason=Reason.EXHAUSTED,
        attempt=4, error=FAILURE, ended_at_ms=9,
    ),
    ROW,
    AttemptRow(job_id="j", attempt=1, token=1, incarnation="i", granted_at_ms=1, outcome=Outcome.LOST, error=FAILURE),
    EventRow(id=1, job_id="j", at_ms=1, what="granted"),
    ListQuery(state=State.FAILED, before=7),
    PAUSE,
    PauseRequest(kind="preview", who="ann"),
    OpenJobs(namespace="default", kind="preview", version="v1", queued=1),
    Coverage(
        namespace="default", kind="preview", version="v1", queued=1, running=0, live=("w",), leaving=(), pause=PAUSE,
        warning="",
    ),
    Ahead(urgent=1),
    MACHINES,
    Outlook(
        job=ROW, workers=(WORKER,), declared=(MACHINES,), taken={"i": 1}, ahead={"i": Ahead(older=2)}, pause=PAUSE,
        error=FAILURE,
    ),
    Offering(stopped_at_ms=5, per_s=0.5),
    Why(job_id="j", state=State.QUEUED, cause=Cause.NEXT, sentence="next"),
    LogPiece(attempt=1, data=b"at work\xff", end=8),
    Message(msg_id="result:j:webhook:x", route="webhook:x", body="{}", tries=1),
    Due(lease_ms=4, holders=(WORKER,), next_ms=5),
    Garbage(namespace="default", lease=LEASE, keep=("k",)),
    Owed(answers=2, job_id="j", msg_id="m", route="rabbitmq:q", tries=3, ended_at_ms=1),
    Keep(job_ttl_s=1),
    Stale(results=("j",)),
    Record(job_id="j", ended_at_ms=1, seen=2, line="{}"),
    Archived(job_id="j", namespace="default", state=State.FINISHED, ended_at_ms=1, archived_at_ms=2),
    Glance(wall_ms=1, boot_ms=2, epoch="e"),
]  # fmt: skip


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: type(sample).__name__)
def test_a_message_comes_back_from_json_as_it_was(sample: Struct) -> None:
    assert msgspec.json.decode(msgspec.json.encode(sample), type=type(sample)) == sample


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: type(sample).__name__)
def test_a_message_cannot_be_changed(sample: Struct) -> None:
    field = sample.__struct_fields__[0]

    with pytest.raises(AttributeError):
        setattr(sample, field, None)


def test_every_message_has_a_sample_here() -> None:
    declared = {
        value for module in (messages, offers, keeping, listing, pauses, printed, coverage, why)
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Struct) and value is not Struct
    }  # fmt: skip

    assert {type(sample) for sample in SAMPLES} == declared


@pytest.mark.parametrize("field", ["not_yet_known", "x"])
def test_a_message_of_a_newer_planrun_is_read_without_its_new_fields(field: str) -> None:
    newer: dict[str, Any] = {**msgspec.to_builtins(LEASE), field: [1]}

    assert msgspec.json.decode(msgspec.json.encode(newer), type=Lease) == LEASE


def test_a_message_with_a_wrong_type_is_refused_with_its_place_named() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$\.attempt"):
        msgspec.json.decode(b'{"job_id":"j","attempt":"two","token":1}', type=Lease)


@pytest.mark.parametrize("lease_ms", [0, -5, LEASE_S_MAX * 1000 + 1, 2**62, 10**30])
def test_a_lease_of_a_length_that_nobody_could_mean_is_not_read(lease_ms: int) -> None:
    """One such heartbeat would keep all that are written down with it from the ledger."""
    with pytest.raises(msgspec.ValidationError, match=r"\$\.lease_ms"):
        msgspec.json.decode(b'{"incarnation":"i","beats":[],"lease_ms":%d}' % lease_ms, type=RenewRequest)
    with pytest.raises(msgspec.ValidationError, match=r"\$\.lease_ms"):
        grant = b'{"job_id":"j","attempt":1,"incarnation":"i","nonce":"n","lease_ms":%d}' % lease_ms
        msgspec.json.decode(grant, type=GrantRequest)


def test_a_seal_is_no_part_of_a_lease_s_identity() -> None:
    """The ledger names leases by what is in its rows."""
    sealed = structs.replace(LEASE, seal="s")
    assert sealed == LEASE and hash(sealed) == hash(LEASE) and {sealed} == {LEASE}
    assert sealed != structs.replace(LEASE, token=LEASE.token + 1)
