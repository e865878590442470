"""What a hundred waiting processes cost: processor time of all of them together, per second, as a part of one core.

First nothing happens in the ledger, then others commit about fifty times a second. Half of the jobs waited for are
queued; the other half, with leases of a minute, are held by a holder that renews them.

    python bench/waiting.py [--processes 100] [--seconds 30]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from planrun.core.messages import (
    Beat,
    CancelRequest,
    Granted,
    GrantRequest,
    Handler,
    Lease,
    RenewRequest,
    SubmitRequest,
    WorkerRow,
)
from planrun.ledger.contract import Ledger
from planrun.wiring import open_ledger

COMMITS_PER_S = 50
LEASE_MS = 60_000
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
START_S_MAX = 180


@dataclass(frozen=True)
class Cost:
    """Parts of one core, all waiting processes together. `end_s`: from the last end to the last answer."""

    idle: float
    busy: float
    end_s: float


async def measure(folder: Path, *, processes: int, seconds: float) -> Cost:
    """Start them, let them wait, and end what they wait for."""
    url = f"sqlite:///{folder}/ledger.db"
    ledger = open_ledger(url)
    jobs = [await _submit(ledger, f"waited-{n}") for n in range(processes)]
    await ledger.register(
        WorkerRow(incarnation="w", name="w", host="here", slots=processes, handlers=(Handler(kind="k", version="v1"),))
    )
    leases = [await _grant(ledger, job) for job in jobs[::2]]
    waiting = [_start(job, url) for job in jobs]
    try:
        await _settled([process.pid for process in waiting])
        idle = await _cost(waiting, ledger, leases, seconds, commits_per_s=0)
        busy = await _cost(waiting, ledger, leases, seconds, commits_per_s=COMMITS_PER_S)
        began = time.monotonic()
        for job in jobs:
            await ledger.cancel(_cancel(job))
        for process in waiting:
            await asyncio.to_thread(process.wait, 60)
        return Cost(idle, busy, time.monotonic() - began)
    finally:
        for process in waiting:
            process.kill()
            process.wait()
        await ledger.close()


def spent_s(pids: Iterable[int]) -> float:
    """Processor time that these processes have used so far."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS_PER_S


async def _settled(pids: list[int]) -> None:
    """Until all have started and sleep: two seconds in which they use next to nothing."""
    until = time.monotonic() + START_S_MAX
    before = spent_s(pids)
    while time.monotonic() < until:
        await asyncio.sleep(2)
        now = spent_s(pids)
        if now - before < 0.1:
            return
        before = now
    raise RuntimeError("the waiting processes never came to rest")


async def _cost(
    waiting: list[subprocess.Popen[bytes]], ledger: Ledger, leases: list[Lease], seconds: float, *, commits_per_s: int
) -> float:
    pids = [process.pid for process in waiting]
    before, began = spent_s(pids), time.monotonic()
    renewed = began
    n = 0
    while (now := time.monotonic()) < began + seconds:
        if now >= renewed:
            beats = tuple(Beat(lease=lease, fraction=(n % 100) / 100) for lease in leases)
            await ledger.renew(RenewRequest(incarnation="w", beats=beats, lease_ms=LEASE_MS))
            renewed += 5
        if commits_per_s:
            await _submit(ledger, f"other-{began}-{n}")
            n += 1
        await asyncio.sleep(1 / (commits_per_s or 10))
    return (spent_s(pids) - before) / (time.monotonic() - began)


async def _submit(ledger: Ledger, request_id: str) -> str:
    [reply] = await ledger.submit(
        [SubmitRequest(request_id=request_id, kind="k", content_hash=request_id, request_hash=request_id)]
    )
    return reply.job_id


async def _grant(ledger: Ledger, job: str) -> Lease:
    granted = await ledger.grant(GrantRequest(job_id=job, attempt=1, incarnation="w", nonce=job, lease_ms=LEASE_MS))
    assert isinstance(granted, Granted), granted
    return granted.lease


def _start(job: str, url: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "planrun.cli", "wait", job, "--url", url, "--json"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _cancel(job: str) -> CancelRequest:
    return CancelRequest(namespace="default", job_id=job)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=30)
    told = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="planrun-bench-") as folder:
        cost = asyncio.run(measure(Path(folder), processes=told.processes, seconds=told.seconds))
    print(f"{told.processes} waiting processes: {cost.idle:.2%} of a core while nothing happens,")
    print(f"{cost.busy:.2%} while others commit {COMMITS_PER_S} times a second; all answered within {cost.end_s:.1f} s")


if __name__ == "__main__":
    main()
