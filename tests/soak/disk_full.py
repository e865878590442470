"""The ledger's disk is full while jobs run and 64 callers ask: true answers, no lost claim, a short log."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from planrun.core.errors import LedgerUnavailable
from planrun.core.messages import CancelRequest, SubmitRequest
from planrun.ledger.contract import Ledger
from planrun.wiring import open_ledger
from tests.lab import Lab, WorkerProcess
from tests.small_disk import SmallDisk, small_disk

FULL_S = 60.0


@dataclass(eq=False)
class LabOnDisk(Lab):
    """The ledger and the store lie on the small disk, everything else beside it."""

    disk: SmallDisk = field(kw_only=True)

    @property
    def url(self) -> str:
        return f"sqlite:///{self.disk.folder / 'lab.db'}"

    def start_worker(self, *, environment: dict[str, str] | None = None, **options: Any) -> WorkerProcess:
        options = {"scratch": str(self.folder / "scratch"), "disk_free_bytes_min": 0, **options}
        return super().start_worker(environment=environment, **options)


@dataclass
class Crowd:
    """Attributes:
    missing: Answered as done, and not there after opening anew.
    doubled: There more than once.
    """

    answered: int = 0
    refused: int = 0
    missing: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    integrity: str = ""


@dataclass(frozen=True)
class Held:
    job_ids: list[str]
    states: list[str]
    starts: int
    losses: int
    asked: int
    refused: int
    log_lines: int


async def crowd(lab: LabOnDisk, *, callers: int, rounds: int) -> Crowd:
    """Callers submit and cancel while the disk fills up, is full, and is emptied again."""
    seen = Crowd()
    submitted: dict[str, str] = {}
    canceled: set[str] = set()
    await lab.submit("nap")  # the ledger exists before the disk is full
    lab.disk.fill(leave_bytes=200_000)

    async def caller() -> None:
        for turn in range(rounds):
            request_id = uuid.uuid4().hex
            reply = await _insist(seen, lambda asked=request_id: _submit(lab.ledger, asked))
            submitted[request_id] = reply
            if turn % 2:
                await _insist(seen, lambda job_id=reply: _cancel(lab.ledger, job_id))
                canceled.add(reply)

    async with asyncio.timeout(60):
        calling = asyncio.gather(*(caller() for _ in range(callers)))

        async def many_refused() -> bool:
            return seen.refused >= callers or calling.done()

        await lab.until(many_refused, "callers are refused")
        lab.disk.empty()
        await calling
    await _compare(lab, seen, submitted, canceled)
    return seen


async def _insist(seen: Crowd, ask: Any) -> str:
    """Ask until there is an answer, as the error says that one may."""
    while True:
        try:
            answer: str = await ask()
        except LedgerUnavailable:
            seen.refused += 1
            await asyncio.sleep(0.02)
        else:
            seen.answered += 1
            return answer


async def _submit(ledger: Ledger, request_id: str) -> str:
    request = SubmitRequest(
        request_id=request_id, kind="nap", params={"pad": "x" * 500}, content_hash="c", request_hash=request_id
    )
    (reply,) = await ledger.submit([request])
    return reply.job_id


async def _cancel(ledger: Ledger, job_id: str) -> str:
    await ledger.cancel(CancelRequest(namespace="default", job_id=job_id))
    return job_id


async def _compare(lab: LabOnDisk, seen: Crowd, submitted: dict[str, str], canceled: set[str]) -> None:
    await lab.ledger.close()
    again = lab._ledger = open_ledger(lab.url)
    for job_id in submitted.values():
        row = await again.job(None, job_id)
        if row is None or row.state != ("canceled" if job_id in canceled else "queued"):
            seen.missing.append(job_id)
            continue
        told = [event.what for event in await again.events(job_id)]
        if told.count("submitted") != 1 or told.count("canceled") != (job_id in canceled):
            seen.doubled.append(job_id)
    assert await again.violations() == []
    with sqlite3.connect(f"file:{lab.place.ledger}?mode=ro", uri=True) as plain:
        (seen.integrity,) = plain.execute("PRAGMA integrity_check").fetchone()


async def hold(lab: LabOnDisk, *, full_s: float, lease_s: float, jobs: int = 5) -> Held:
    """Keep the disk full for a while; the jobs end in the middle of it."""
    worker = lab.start_worker(lease_s=lease_s, slots=jobs)
    await lab.ready(1)
    job_ids = [await lab.submit("nap", {"seconds": full_s / 2}) for _ in range(jobs)]
    for job_id in job_ids:
        await lab.started(job_id, 1)
    lab.disk.fill()
    asked = refused = 0
    until = asyncio.get_running_loop().time() + full_s
    while asyncio.get_running_loop().time() < until:
        asked += 1
        try:
            await lab.submit("nap", {"pad": "x" * 8_000})
        except LedgerUnavailable:
            refused += 1
        await asyncio.sleep(full_s / 40)
    lab.disk.empty()
    rows = await lab.ended(*job_ids)
    return Held(
        job_ids=job_ids,
        states=[row.state.value for row in rows],
        starts=len(lab.starts()),
        losses=sum(row.losses for row in rows),
        asked=asked,
        refused=refused,
        log_lines=len(worker.text.splitlines()),
    )


async def _run(full_s: float) -> tuple[Crowd, Held]:
    with tempfile.TemporaryDirectory() as folder, small_disk(Path(folder, "disk"), megabytes=8) as disk:
        lab = LabOnDisk(Path(folder), disk=disk)
        try:
            crowded = await crowd(lab, callers=64, rounds=10)
        finally:
            await lab.close()
    with tempfile.TemporaryDirectory() as folder, small_disk(Path(folder, "disk"), megabytes=8) as disk:
        lab = LabOnDisk(Path(folder), disk=disk)
        try:
            return crowded, await hold(lab, full_s=full_s, lease_s=6.0)
        finally:
            await lab.close()


def main(minutes: float | None) -> int:
    crowded, held = asyncio.run(_run(FULL_S if minutes is None else min(FULL_S, max(10, minutes * 60 - 30))))
    print(
        f"{crowded.answered} answers, {crowded.refused} refusals, {len(crowded.missing)} untrue, "
        f"{len(crowded.doubled)} doubled, integrity {crowded.integrity}"
    )
    print(
        f"5 jobs: {held.states}, {held.starts} starts, {held.losses} losses; {held.refused} of {held.asked} submits "
        f"refused; {held.log_lines} log lines"
    )
    true = not (crowded.missing or crowded.doubled) and crowded.integrity == "ok"
    kept = (held.starts, held.losses) == (5, 0) and set(held.states) == {"finished"}
    return 0 if true and kept and held.log_lines < 100 else 1
