"""A job of 150 s on a broker whose patience is 60 s, short ones beside it: each starts once, no channel is closed."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from deploy.local.rabbitmq import RabbitMQ
from tests.fleet import Fleet

PATIENCE_S = 60.0
LONG_S = 150.0
SHORT = 10
# What a broker writes when it loses patience with a consumer, or anybody loses a connection.
TROUBLE = ("timeout value used", "PRECONDITION_FAILED", "closing AMQP connection", "missed heartbeats")


async def stand(folder: Path, broker: RabbitMQ, *, long_s: float, short_s: float) -> str:
    """One long job, short ones one after the other meanwhile. What was seen, in words."""
    fleet = Fleet(folder, broker=broker)
    try:
        fleet.start_orchestrator()
        for _ in range(2):
            fleet.start_worker(slots=2)
        await fleet.ready(2)
        before = len(broker.log)  # whoever asked whether it is up was thrown out
        began_s = time.monotonic()
        long = await fleet.submit("nap", {"seconds": long_s})
        spin = await fleet.submit("spin", {"seconds": long_s * 0.9})  # C20: job code that never lets go of anything
        for job_id in (long, spin):
            await fleet.started(job_id, 1)
        for n in range(SHORT):
            short = await fleet.submit("nap", {"seconds": short_s, "n": n})
            await fleet.ended(short, timeout_s=short_s + 40)
            if (await fleet.job(long)).ended_at_ms is not None:  # a busy machine
                break
            await asyncio.sleep(max(0.0, began_s + long_s * 0.8 * (n + 1) / SHORT - time.monotonic()))
        count = await fleet.all_ended_once(timeout_s=long_s + 60)
        took_s = time.monotonic() - began_s
        log = broker.log[before:]
        seen = [line for line in log.splitlines() if any(word in line for word in TROUBLE)]
        assert seen == [], "\n".join(seen)
        return f"{count} jobs, {len(fleet.starts())} starts in {took_s:.0f} s; no channel or connection was closed"
    finally:
        await fleet.end()


def main(minutes: float | None) -> int:
    long_s = LONG_S if minutes is None else min(LONG_S, max(15.0, minutes * 30))
    patience_s = long_s * PATIENCE_S / LONG_S
    broker = RabbitMQ(consumer_timeout_ms=int(patience_s * 1000))
    try:
        broker.start()
        with tempfile.TemporaryDirectory() as folder:
            said = asyncio.run(stand(Path(folder), broker, long_s=long_s, short_s=1))
            print(f"broker that waits {patience_s:.0f} s, job of {long_s:.0f} s: {said}", flush=True)
    finally:
        broker.remove()
    return 0
