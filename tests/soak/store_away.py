"""The S3 server is away for a minute while twenty jobs want to store their results: none of them starts twice."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from pathlib import Path

from deploy.local.s3 import BUCKET, Ministack
from planrun.storage.s3 import S3Store
from tests.lab import Lab

JOBS = 20
AWAY_S = 60.0
RENDER_S = 8.0  # longer than it takes to start them all
LEASE_S = 5.0  # many lengths of it pass meanwhile


async def stand(folder: Path, *, away_s: float) -> str:
    """Twenty jobs end while the store is away, and the store is back so many seconds later. What was seen, in words."""
    server = Ministack(folder / "s3")
    server.start()
    os.environ |= server.environment
    lab = Lab(folder)
    try:
        for _ in range(2):
            lab.start_worker(slots=JOBS // 2, lease_s=LEASE_S, store=f"s3://{BUCKET}/soak")
        await lab.ready(2)
        job_ids = [await lab.submit("render", {"seconds": RENDER_S, "n": n}) for n in range(JOBS)]
        for job_id in job_ids:
            await lab.started(job_id, 1)
        server.kill()
        gone_at = time.monotonic()
        while time.monotonic() < gone_at + away_s:
            assert [job_id for job_id in job_ids if (await lab.job(job_id)).ended_at_ms is not None] == []
            await asyncio.sleep(1)
        server.start()
        back_at = time.monotonic()
        rows = await lab.ended(*job_ids, timeout_s=120)
        late_s = time.monotonic() - back_at
        store = S3Store(BUCKET, "soak", endpoint=server.endpoint)
        for job_id in job_ids:
            for output in (await lab.result(job_id)).outputs:
                assert store.head(output.key) == output.bytes
        assert {str(row.state) for row in rows} == {"finished"}
        assert len(lab.starts()) == JOBS, f"{len(lab.starts())} starts of {JOBS} jobs"
        assert await lab.ledger.violations() == []
        return f"{JOBS} jobs, {len(lab.starts())} starts; all had ended {late_s:.1f} s after the store was back"
    finally:
        await lab.close()
        server.kill()


def main(minutes: float | None) -> int:
    away_s = AWAY_S if minutes is None else min(AWAY_S, minutes * 30)
    with tempfile.TemporaryDirectory() as folder:
        print(f"store away for {away_s:.0f} s: {asyncio.run(stand(Path(folder), away_s=away_s))}", flush=True)
    return 0
