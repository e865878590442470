"""The orchestrator is killed every 5 s for 2 minutes under load; the S3 server is away for one: no job starts twice.

Jobs are submitted, run and settled all the time; whoever asks an orchestrator that is away asks again.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
import uuid
from contextlib import suppress
from pathlib import Path

from deploy.local.rabbitmq import RabbitMQ
from deploy.local.s3 import Ministack
from planrun.core.errors import LedgerUnavailable
from tests.fleet import Fleet

KILL_EVERY_S = 5.0
KILLS = 24
AWAY_S = 60.0
UPLOADS = 20
SLOTS = 4  # of each of two workers


async def submit_until(fleet: Fleet, stop: asyncio.Event) -> None:
    """Some jobs again and again, each with an id of its own, so that a lost reply costs nothing."""
    while not stop.is_set():
        requests = [fleet.request("nap", {"seconds": 0.5, "id": uuid.uuid4().hex}) for _ in range(4)]
        requests += [fleet.request("render", {"seconds": 2, "id": uuid.uuid4().hex})]
        while True:
            with suppress(LedgerUnavailable):
                await fleet.ledger.submit(requests)
                break
            await asyncio.sleep(0.2)
        await asyncio.sleep(1)


async def killed(fleet: Fleet, *, kills: int, every_s: float) -> str:
    """The orchestrator dies so many times, and is started again at once. What was seen, in words."""
    stop = asyncio.Event()
    submitting = asyncio.create_task(submit_until(fleet, stop))
    began_s = time.monotonic()
    for n in range(kills):
        await asyncio.sleep(max(0.0, began_s + (n + 1) * every_s - time.monotonic()))
        fleet.kill_orchestrator()
        await asyncio.to_thread(fleet.start_orchestrator)
    stop.set()
    await submitting
    count = await fleet.all_ended_once()
    return f"{kills} kills in {time.monotonic() - began_s:.0f} s: {count} jobs, {len(fleet.starts())} starts"


async def store_away(fleet: Fleet, *, away_s: float) -> str:
    """Jobs want to upload while the store is away. What was seen, in words."""
    assert fleet.s3 is not None
    before = len(fleet.starts())
    jobs = await fleet.submit_all("render", UPLOADS, seconds=3)
    await fleet.started(jobs[0], 1)
    fleet.s3.stop()
    await asyncio.sleep(away_s)
    ended = [job_id for job_id in jobs if (await fleet.job(job_id)).ended_at_ms is not None]
    assert ended == [], "an upload went through before the store was stopped: take longer jobs"
    fleet.s3.start()
    await fleet.all_ended_once()
    return f"store away for {away_s:.0f} s: {len(jobs)} jobs, {len(fleet.starts()) - before} starts"


async def stand(folder: Path, broker: RabbitMQ, *, kills: int, every_s: float, away_s: float) -> None:
    s3 = Ministack(folder / "s3")
    fleet = Fleet(folder, broker=broker, s3=s3)
    try:
        s3.start()
        fleet.start_orchestrator()
        for _ in range(2):
            fleet.start_worker(slots=SLOTS)
        await fleet.ready(2)
        print(await killed(fleet, kills=kills, every_s=every_s), flush=True)
        print(await store_away(fleet, away_s=away_s), flush=True)
    finally:
        await fleet.end()
        s3.kill()


def main(minutes: float | None) -> int:
    share = 1.0 if minutes is None else min(1.0, minutes / 4)
    broker = RabbitMQ()
    try:
        broker.start()
        with tempfile.TemporaryDirectory() as folder:
            kills, away_s = max(2, int(KILLS * share)), AWAY_S * share
            asyncio.run(stand(Path(folder), broker, kills=kills, every_s=KILL_EVERY_S, away_s=away_s))
    finally:
        broker.remove()
    return 0
