"""A client and workers in one line each, so that a test reads as the story it tells."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import structs

from planrun.core.budget import Counter
from planrun.core.life import Outcome
from planrun.core.messages import (
    Beat,
    CancelReply,
    CancelRequest,
    Checkpoint,
    CheckpointFile,
    CheckpointRequest,
    Failure,
    Granted,
    GrantRequest,
    Handler,
    JobRow,
    Lease,
    Output,
    Refused,
    ReleaseRequest,
    RenewRequest,
    Result,
    Settled,
    SettleRequest,
    Standing,
    SubmitReply,
    SubmitRequest,
    WorkerRow,
)
from planrun.core.names import attempt_prefix, digest, log_key, object_key
from planrun.core.offers import Offer, OfferQuery
from planrun.ledger.contract import Ledger

from .manual_clock import ManualClock

LEASE_MS = 60_000
KIND = "preview"
HANDLER = Handler(kind=KIND, version="v1")
_request_ids = itertools.count(1)


def a_request(**given: Any) -> SubmitRequest:
    """One submit call; whatever is not given is plain. `content` stands for inputs and params."""
    request_id = given.pop("request_id", None) or f"request-{next(_request_ids)}"
    content = digest([given.pop("content", "same"), given.get("kind", KIND), given.get("version", "v1")])
    asked = digest([content, given.get("key"), given.get("needs"), given.pop("asked", None)])
    fields: dict[str, Any] = {"kind": KIND, "content_hash": content, "request_hash": asked, **given}
    return SubmitRequest(request_id=request_id, **fields)


def an_output(lease: Lease, name: str = "out.mp4", text: str = "frames", namespace: str = "default") -> Output:
    """A file as the worker stored it for this attempt."""
    sha256 = digest(text)
    prefix = attempt_prefix(namespace, lease.job_id, lease.attempt, lease.token)
    return Output(name=name, key=object_key(prefix, sha256, name), sha256=sha256, bytes=len(text))


def a_log(lease: Lease) -> str:
    """Key of what the job printed, where a fleet's worker leaves it."""
    return log_key(attempt_prefix("default", lease.job_id, lease.attempt, lease.token))


def a_checkpoint(lease: Lease, seq: int) -> Checkpoint:
    prefix = attempt_prefix("default", lease.job_id, lease.attempt, lease.token)
    sha256 = digest([lease.token, seq])
    file = CheckpointFile(name="state", key=object_key(prefix, sha256, "state"), sha256=sha256, bytes=9)
    return Checkpoint(attempt=lease.attempt, seq=seq, format="fmt-1", files=(file,))


def a_worker(incarnation: str, **given: Any) -> WorkerRow:
    row: dict[str, Any] = {"name": f"name-of-{incarnation}", "host": "box", "slots": 4, "handlers": (HANDLER,)}
    return WorkerRow(incarnation=incarnation, **row | given)


@dataclass
class Actors:
    """Everyone who talks to one ledger."""

    ledger: Ledger
    clock: ManualClock
    ready: set[str] = field(default_factory=set)

    # --- the client ---

    async def submit(self, **given: Any) -> SubmitReply:
        [reply] = await self.ledger.submit([a_request(**given)])
        return reply

    async def cancel(self, job_id: str, *, namespace: str = "default", who: str = "ann", why: str = "") -> CancelReply:
        return await self.ledger.cancel(CancelRequest(namespace=namespace, job_id=job_id, who=who, why=why))

    async def row(self, job_id: str) -> JobRow:
        row = await self.ledger.job(None, job_id)
        assert row is not None, f"{job_id} is not in the ledger"
        return row

    async def result(self, job_id: str) -> Result:
        result = await self.ledger.result(job_id)
        assert result is not None, f"{job_id} has no result"
        return result

    async def bodies(self) -> dict[str, str]:
        """What is owed now, by message id; taken, so it is not due again at once."""
        return {m.msg_id: m.body for m in await self.ledger.take_messages(limit=100, retry_ms=1_000)}

    # --- workers ---

    async def register(self, incarnation: str, **given: Any) -> None:
        await self.ledger.register(a_worker(incarnation, **{"seen_at_ms": self.clock.wall_ms, **given}))
        self.ready.add(incarnation)

    async def offers(self, limit: int = 100, **given: Any) -> list[Offer]:
        query: dict[str, Any] = {"namespaces": ("default",), "handlers": (HANDLER,), "capabilities": ()}
        return await self.ledger.offers(OfferQuery(**query | given, limit=limit))

    async def line(self, **given: Any) -> list[str]:
        """The job ids in the order in which they are offered."""
        return [offer.job_id for offer in await self.offers(**given)]

    async def ask(
        self,
        job_id: str,
        attempt: int = 1,
        *,
        by: str = "w1",
        nonce: str | None = None,
        lease_ms: int = LEASE_MS,
        seal: str = "",
    ) -> Granted | Refused:
        if by not in self.ready:
            await self.register(by)
        asked = self.asking(job_id, attempt, by=by, nonce=nonce, lease_ms=lease_ms)
        return await self.ledger.grant(structs.replace(asked, seal=seal))

    def asking(
        self, job_id: str, attempt: int = 1, *, by: str, nonce: str | None = None, lease_ms: int = LEASE_MS
    ) -> GrantRequest:
        nonce = nonce or self.clock.new_id()
        return GrantRequest(job_id=job_id, attempt=attempt, incarnation=by, nonce=nonce, lease_ms=lease_ms)

    async def granted(self, job_id: str, attempt: int | None = None, *, by: str = "w1", **given: Any) -> Granted:
        """Get a grant of the job's current attempt, waiting for its due time on the pretended clock."""
        row = await self.row(job_id)
        wait_ms = max(0, row.not_before_ms - self.clock.boot_ms_now)
        self.clock.advance(wait_ms / 1000)
        answer = await self.ask(job_id, attempt or row.attempt, by=by, **given)
        assert isinstance(answer, Granted), f"not granted: {answer}"
        return answer

    async def grant(self, job_id: str, *, by: str = "w1", **given: Any) -> Lease:
        return (await self.granted(job_id, by=by, **given)).lease

    async def running(self, *, by: str = "w1", **given: Any) -> Lease:
        """Submit a job and have it granted."""
        return await self.grant((await self.submit(**given)).job_id, by=by)

    async def renew(self, *leases: Lease, by: str = "w1", lease_ms: int = LEASE_MS) -> list[str]:
        beats = tuple(Beat(lease=lease) for lease in leases)
        answers = await self.ledger.renew(RenewRequest(incarnation=by, beats=beats, lease_ms=lease_ms))
        return [answer.status for answer in answers]

    async def succeed(self, lease: Lease, *, text: str = "frames", value: Any = None) -> Settled:
        job = await self.ledger.job(None, lease.job_id)
        outputs = (an_output(lease, text=text, namespace=job.namespace if job is not None else "default"),)
        return await self.ledger.settle(
            SettleRequest(lease=lease, outcome=Outcome.SUCCESS, outputs=outputs, value=value)
        )

    async def fail(self, lease: Lease, outcome: Outcome = Outcome.TRANSIENT, message: str = "disk full") -> Settled:
        return await self.ledger.settle(SettleRequest(lease=lease, outcome=outcome, error=Failure(message=message)))

    async def release(self, lease: Lease, *, started: bool = True) -> Settled:
        return await self.ledger.release(ReleaseRequest(lease=lease, why="deploy", started=started, who="w1"))

    async def save(self, lease: Lease, seq: int = 1) -> Standing:
        return await self.ledger.checkpoint(CheckpointRequest(lease=lease, checkpoint=a_checkpoint(lease, seq)))

    async def standing(self, lease: Lease, intent: Sequence[Output] = ()) -> str:
        return (await self.ledger.standing(lease, intent)).status

    # --- the sweeper ---

    async def sweep(self, *, stamp_ms: int, incarnation: str | None = None) -> int:
        """Expire what a test expects to end. Right after a disturbance the ledger gives holders a moment first."""
        for _ in range(200):
            if ended := await self.ledger.expire(stamp_ms=stamp_ms, incarnation=incarnation):
                return ended
            self.clock.advance(0.1)
            await asyncio.sleep(0)
        return 0

    async def expire_all(self) -> int:
        """Let a whole lease pass and sweep."""
        self.clock.advance(LEASE_MS / 1000)
        return await self.sweep(stamp_ms=self.clock.boot_ms_now)

    async def budgets(self, job_id: str) -> dict[Counter, int]:
        row = await self.row(job_id)
        return {Counter.FAILURES: row.failures, Counter.LOSSES: row.losses, Counter.HANDBACKS: row.handbacks}
