"""What clients meet, made by hand: a worker without processes, and a ledger whose replies get lost."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from planrun.client import AsyncClient
from planrun.clock import Clock, SystemClock
from planrun.core.errors import LedgerBusy, LedgerUnavailable
from planrun.core.life import Outcome
from planrun.core.messages import (
    Failure,
    Granted,
    GrantRequest,
    Handler,
    Lease,
    Output,
    SettleRequest,
    SubmitReply,
    SubmitRequest,
    WorkerRow,
)
from planrun.core.names import attempt_prefix
from planrun.ledger.contract import Ledger
from planrun.storage.contract import Store
from planrun.wiring import open_fleet_ledger, open_ledger, open_store


class Hands:
    """Takes jobs and ends them, as a worker would, one call at a time."""

    def __init__(self, ledger: Ledger, store: Store, clock: Clock, *, kind: str = "preview") -> None:
        self.ledger = ledger
        self.store = store
        self.incarnation = clock.new_id()
        self._handler = Handler(kind=kind, version="v1")
        self._clock = clock

    async def register(self) -> None:
        row = WorkerRow(incarnation=self.incarnation, name="w1", host="here", slots=1, handlers=(self._handler,))
        await self.ledger.register(row)

    async def take(self, job_id: str, *, lease_ms: int = 60_000) -> Granted:
        row = await self.ledger.job(None, job_id)
        assert row is not None
        request = GrantRequest(
            job_id=row.job_id,
            attempt=row.attempt,
            incarnation=self.incarnation,
            nonce=self._clock.new_id(),
            lease_ms=lease_ms,
        )
        granted = await self.ledger.grant(request)
        assert isinstance(granted, Granted), granted
        return granted

    async def finish(self, job_id: str, *, value: Any = None, files: dict[str, Path] | None = None) -> None:
        granted = await self.take(job_id)
        outputs = tuple(self._put(granted, name, path) for name, path in (files or {}).items())
        await self.settle(granted.lease, Outcome.SUCCESS, outputs=outputs, value=value)

    async def fail(self, job_id: str, error: Failure) -> None:
        granted = await self.take(job_id)
        await self.settle(granted.lease, Outcome.PERMANENT, error=error)

    async def settle(self, lease: Lease, outcome: Outcome, **said: Any) -> None:
        await self.ledger.settle(SettleRequest(lease=lease, outcome=outcome, **said))

    def _put(self, granted: Granted, name: str, path: Path) -> Output:
        lease = granted.lease
        prefix = attempt_prefix(granted.namespace, lease.job_id, lease.attempt, lease.token)
        stored = self.store.put(prefix, name, path, may_go_on=lambda: True)
        return Output(name=name, key=stored.key, sha256=stored.sha256, bytes=stored.bytes)


class Lossy:
    """A ledger that does what is asked, and loses every second reply to a submit."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._calls = 0

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._ledger, verb)

    async def submit(self, requests: Sequence[SubmitRequest]) -> list[SubmitReply]:
        self._calls += 1
        lost = self._calls % 2 == 1
        replies = await self._ledger.submit(requests)
        if lost:
            raise LedgerUnavailable("the reply was lost")
        return replies


class Locked:
    """A ledger whose write lock somebody holds. `errors` are raised in turn, the last one for ever."""

    def __init__(self, ledger: Ledger, *errors: LedgerUnavailable) -> None:
        self._ledger = ledger
        self._errors = list(errors) or [LedgerBusy("process 7 holds the lock", holder_pid=7)]

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._ledger, verb)

    async def submit(self, requests: Sequence[SubmitRequest]) -> list[SubmitReply]:
        raise self._errors.pop(0) if len(self._errors) > 1 else self._errors[0]


def over(ledger: Any, url: str) -> AsyncClient:
    """A client over a ledger that stands in for the real one."""
    return AsyncClient.over(ledger, open_store(url), url=url, clock=SystemClock.open_system())


@asynccontextmanager
async def open_world(url: str, *, broker_prefix: str | None = None) -> AsyncIterator[tuple[AsyncClient, Hands]]:
    """A client and a worker's hands over one ledger; with a prefix, that of a fleet that has a broker."""
    clock = SystemClock.open_system()
    ledger = open_ledger(url) if broker_prefix is None else open_fleet_ledger(url, broker_prefix=broker_prefix)
    store = open_store(url)
    hands = Hands(ledger, store, clock)
    await hands.register()
    try:
        yield AsyncClient.over(ledger, store, url=url, clock=clock), hands
    finally:
        await ledger.close()
