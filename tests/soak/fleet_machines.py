"""Twenty jobs wait a minute for the only machine that can run them; one that none ever could fails at once, by name."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from deploy.local.rabbitmq import RabbitMQ
from planrun.core.life import Reason, State
from tests.fleet import Fleet

JOBS = 20
AWAY_S = 60.0
AT_ONCE_S = 3.0


async def stand(folder: Path, broker: RabbitMQ, *, away_s: float) -> str:
    """The machine with a GPU dies, and comes back so many seconds later. What was seen, in words."""
    fleet = Fleet(folder, broker=broker, options=("--warm-after-s", "0"))
    try:
        fleet.start_orchestrator()
        machine = fleet.start_worker(capabilities=["gpu"], slots=2)
        fleet.start_worker()
        await fleet.ready(2)
        machine.kill()
        gone_at = time.monotonic()
        jobs = await fleet.submit_all("gpu-only", JOBS)

        hopeless = await fleet.submit("nap", needs=("gpu:h100",))
        (row,) = await fleet.ended(hopeless, timeout_s=AT_ONCE_S)
        error = (await fleet.result(hopeless)).error
        assert (row.state, row.reason) == (State.FAILED, Reason.UNSUPPORTED)
        assert error is not None
        assert "gpu:h100" in error.message

        while time.monotonic() < gone_at + away_s:
            assert {(await fleet.job(job_id)).state for job_id in jobs} == {State.QUEUED}
            await asyncio.sleep(1)
        fleet.start_worker(capabilities=["gpu"], slots=2)
        back_at = time.monotonic()
        rows = await fleet.ended(*jobs)
        assert {row.state for row in rows} == {State.FINISHED}, fleet.last_words()
        assert sorted(start.job_id for start in fleet.starts()) == sorted(jobs)
        await fleet.check(*jobs)
        return (
            f"{JOBS} jobs waited {away_s:.0f} s, and had run {time.monotonic() - back_at:.1f} s later: {error.message}"
        )
    finally:
        await fleet.end()


def main(minutes: float | None) -> int:
    broker = RabbitMQ()
    try:
        broker.start()
        with tempfile.TemporaryDirectory() as folder:
            away_s = AWAY_S if minutes is None else min(AWAY_S, minutes * 30)
            print(asyncio.run(stand(Path(folder), broker, away_s=away_s)), flush=True)
    finally:
        broker.remove()
    return 0
