"""The disk of the ledger is full: every caller hears the truth, nothing is half written, all goes on with space."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from planrun.core.errors import LedgerUnavailable
from planrun.core.life import Outcome, State
from planrun.core.messages import (
    Beat,
    CancelRequest,
    Granted,
    GrantRequest,
    Lease,
    ReleaseRequest,
    RenewRequest,
    SettleRequest,
    SubmitRequest,
)
from planrun.ledger.contract import Ledger
from planrun.ledger.sqlite.database import connect
from planrun.wiring import open_ledger

from .plain import a_request, a_worker

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.needs_root]

EACH = 8  # of eight verbs: 64 at once
Call = Callable[[], Awaitable[Any]]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=6m", "none", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mounting a small disk needs root")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    ballast = folder / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    return ballast


def a_fat_request(n: int) -> SubmitRequest:
    """Too big for what a write-ahead log may still have room for."""
    return SubmitRequest(
        request_id=f"fat-{n}", kind="preview", content_hash="c", request_hash="h", params={"text": "x" * 60_000}
    )


async def a_running_job(ledger: Ledger, name: str) -> Lease:
    [reply] = await ledger.submit([a_request(name)])
    grant = GrantRequest(job_id=reply.job_id, attempt=1, incarnation="w1", nonce=name, lease_ms=60_000)
    granted = await ledger.grant(grant)
    assert isinstance(granted, Granted)
    return granted.lease


async def all_sorts_of_calls(ledger: Ledger) -> dict[str, list[Call]]:
    """64 calls: each can be repeated and is told apart by its job's state afterwards."""

    def prepared(name: str) -> list[Awaitable[Lease]]:
        return [a_running_job(ledger, f"{name}-{n}") for n in range(EACH)]

    settling = await asyncio.gather(*prepared("settle"))
    failing = await asyncio.gather(*prepared("fail"))
    releasing = await asyncio.gather(*prepared("release"))
    renewing = await asyncio.gather(*prepared("renew"))
    canceling = await asyncio.gather(*prepared("cancel"))
    waiting = [reply.job_id for n in range(EACH) for reply in await ledger.submit([a_request(f"grant-{n}")])]

    def ask(job_id: str) -> Call:
        grant = GrantRequest(job_id=job_id, attempt=1, incarnation="w1", nonce=job_id, lease_ms=60_000)
        return lambda: ledger.grant(grant)

    def settle(lease: Lease, outcome: Outcome) -> Call:
        return lambda: ledger.settle(SettleRequest(lease=lease, outcome=outcome))

    def cancel(job_id: str) -> Call:
        return lambda: ledger.cancel(CancelRequest(namespace="default", job_id=job_id))

    def submit(request: SubmitRequest) -> Call:
        return lambda: ledger.submit([request])

    def release(lease: Lease) -> Call:
        return lambda: ledger.release(ReleaseRequest(lease=lease, why="deploy"))

    def renew(lease: Lease) -> Call:
        return lambda: ledger.renew(RenewRequest(incarnation="w1", beats=(Beat(lease=lease),), lease_ms=60_000))

    return {
        "settle": [settle(lease, Outcome.SUCCESS) for lease in settling],
        "fail": [settle(lease, Outcome.TRANSIENT) for lease in failing],
        "release": [release(lease) for lease in releasing],
        "renew": [renew(lease) for lease in renewing],
        "cancel": [cancel(lease.job_id) for lease in canceling],
        "grant": [ask(job_id) for job_id in waiting],
        "submit": [submit(a_request(f"submit-{n}")) for n in range(EACH)],
        "fat": [submit(a_fat_request(n)) for n in range(EACH)],
    }


DONE = {
    "settle": (State.FINISHED, 1),
    "fail": (State.QUEUED, 2),
    "release": (State.QUEUED, 2),
    "renew": (State.RUNNING, 1),
    "cancel": (State.CANCELED, 1),
    "grant": (State.RUNNING, 1),
    "submit": (State.QUEUED, 1),
    "fat": (State.QUEUED, 1),
}
NOT_DONE = {name: None if name in ("submit", "fat") else (State.RUNNING, 1) for name in DONE} | {
    "grant": (State.QUEUED, 1)
}


async def test_each_of_64_callers_hears_the_truth_and_all_goes_on_when_there_is_space(small_disk: Path) -> None:
    """C32."""
    url = f"sqlite:///{small_disk}/ledger.db"
    ledger, witness = open_ledger(url), open_ledger(url)
    await ledger.register(a_worker("w1"))
    calls = await all_sorts_of_calls(ledger)
    ballast = fill(small_disk)

    tried = {name: await asyncio.gather(*(c() for c in some), return_exceptions=True) for name, some in calls.items()}
    one_burst = [call() for some in zip(*calls.values(), strict=True) for call in some]
    burst = await asyncio.gather(*one_burst, return_exceptions=True)

    refused = [answer for answer in burst if isinstance(answer, BaseException)]
    assert any("full" in str(answer) for answer in refused)
    assert all(isinstance(answer, LedgerUnavailable) for answer in refused)
    for i, name in enumerate(calls):
        for n in range(EACH):
            answers = [tried[name][n], burst[n * len(calls) + i]]
            row = await witness.job(None, f"{name}-{n}")
            seen = None if row is None else (row.state, row.attempt)
            if all(isinstance(answer, BaseException) for answer in answers):
                assert seen == NOT_DONE[name], f"{name}-{n} was refused, but done"
            else:
                assert seen == DONE[name], f"{name}-{n} was answered, but not done"

    ballast.unlink()
    await asyncio.gather(*(call() for some in calls.values() for call in some))
    for name in calls:
        for n in range(EACH):
            row = await witness.job(None, f"{name}-{n}")
            assert row is not None
            assert (row.state, row.attempt) == DONE[name]
    assert await witness.violations() == []
    assert connect(small_disk / "ledger.db").pragma("integrity_check") == "ok"
    await ledger.close()
    await witness.close()
