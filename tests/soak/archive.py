"""100 000 ended jobs go to the archive while others are submitted and granted, which hardly notice."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

import apsw

from planrun.config import Place
from planrun.core.keeping import Keep
from planrun.core.messages import Granted, GrantRequest, Handler, SubmitRequest, WorkerRow
from planrun.ledger.contract import Ledger
from planrun.orchestrator.archive import Archive
from planrun.orchestrator.retention import LOOK_EVERY_MS, Retention
from planrun.storage.filesystem import FilesystemStore
from planrun.wiring import open_ledger

JOBS_PER_MINUTE = 10_000
JOBS_MAX = 100_000


async def run(place: Place, count: int) -> int:
    ledger = open_ledger(str(place.ledger))
    handler = Handler(kind="preview", version="v1", result_ttl_s=0.001)
    await ledger.register(WorkerRow(incarnation="w1", name="w", host="box", slots=1, handlers=(handler,)))
    latencies_s = sorted(await archive_beside_grants(ledger, place, count))
    await ledger.close()
    archived = sum(len(file.read_text().splitlines()) for file in place.archive.iterdir())
    median_ms, late_ms = (latencies_s[round(part * (len(latencies_s) - 1))] * 1000 for part in (0.5, 0.99))
    print(f"{archived} of {count} jobs archived")
    print(f"{len(latencies_s)} submits with their grants beside it: median {median_ms:.1f} ms, p99 {late_ms:.0f} ms")
    return 0 if archived == count else 1


async def archive_beside_grants(ledger: Ledger, place: Place, count: int) -> list[float]:
    """Archive many ended jobs; returns how long each submit with its grant took meanwhile."""
    fill(place, count)
    store, archived = FilesystemStore(place.store), Archive(place.archive)
    retention = Retention(ledger, store, archived, keep=Keep(job_ttl_s=0), logs=place.logs, believe_clock=True)
    latencies_s: list[float] = []

    async def archive() -> None:
        wait_ms = 0
        while wait_ms < LOOK_EVERY_MS:
            await asyncio.sleep(wait_ms / 1000)
            wait_ms = await retention.tick(0)

    archiving = asyncio.create_task(archive())
    while not archiving.done():
        began = time.monotonic()
        name = f"busy{len(latencies_s)}"
        [reply] = await ledger.submit(
            [SubmitRequest(request_id=name, kind="preview", content_hash="c", request_hash="h")]
        )
        granted = await ledger.grant(
            GrantRequest(job_id=reply.job_id, attempt=1, incarnation="w1", nonce=name, lease_ms=60_000)
        )
        assert isinstance(granted, Granted)
        latencies_s.append(time.monotonic() - began)
        await asyncio.sleep(0.01)
    await archiving
    return latencies_s


def fill(place: Place, count: int) -> None:
    """Ended jobs with a history, as rows."""
    job = (
        "INSERT INTO job(job_id, namespace, kind, version, content_hash, state, created_at_ms, ended_at_ms, key_open)"
        " VALUES (?, 'default', 'preview', 'v1', 'c', 'canceled', 1, ?, 0)"
    )
    with apsw.Connection(str(place.ledger)) as connection:
        for n in range(count):
            name = f"{n:036}"
            connection.execute(job, (name, n))
            connection.execute("INSERT INTO request VALUES ('default', ?, 'h', ?, 1)", (name, name))
            connection.execute("INSERT INTO result(job_id, attempt, status) VALUES (?, 1, 'canceled')", (name,))
            for what in ("submitted", "granted", "released", "canceled"):
                connection.execute("INSERT INTO event(job_id, at_ms, what) VALUES (?, 1, ?)", (name, what))


def main(minutes: float | None) -> int:
    count = JOBS_MAX if minutes is None else min(JOBS_MAX, max(2_000, round(minutes * JOBS_PER_MINUTE)))
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(run(Place(Path(folder) / "ledger.db"), count))
