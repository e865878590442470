"""30 deploys in a row during one job: it ends finished or with a clear reason, and no deploy waits for a lease.

Once without checkpoints (the hand-back budget ends it), once with one after every step, once with one only when
asked. Prints how long after the SIGTERM the next start came.
"""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from planrun.core.life import Outcome
from planrun.core.messages import JobRow
from tests.lab import Lab

LEASE_S = 60  # so that nothing is ever brought back by a lease
CHECKPOINT_S = 0.5  # generous: the job looks every 20 ms whether it is to stop, and its checkpoint is one small file
START_WITHIN_S = 1.0


@dataclass(frozen=True)
class Deployed:
    """Attributes:
    latencies_s: From each SIGTERM to the next start of job code.
    """

    row: JobRow
    latencies_s: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        ordered = sorted(self.latencies_s)
        start = f"second start {ordered[len(ordered) // 2]:.2f} s after SIGTERM at p50, {ordered[-1]:.2f} s at most"
        return f"{self.row.state} {self.row.reason or ''} after {len(ordered)} hand-overs; {start}"


async def deploy(lab: Lab, count: int, kind: str, params: dict[str, Any], **options: Any) -> Deployed:
    """Replace the worker of one running job so many times, or until it has ended."""
    worker = lab.start_worker(lease_s=LEASE_S, **options)
    await lab.ready_as(worker)
    job_id = await lab.submit(kind, params, subscribers=(lab.receiver(),))
    latencies_s = []
    for n in range(1, count + 1):
        await lab.started(job_id, n)
        follower = lab.start_worker(lease_s=LEASE_S, **options)
        await lab.ready_as(follower)
        told_at = worker.signal(signal.SIGTERM)
        assert await asyncio.to_thread(worker.wait) == 0, worker.text
        worker = follower
        row = await lab.job(job_id)
        if row.ended_at_ms is not None:
            break
        latencies_s.append((await lab.started(job_id, n + 1)).at - told_at)
    return Deployed(await lab.job(job_id), latencies_s)


async def unhurt(lab: Lab, deployed: Deployed, *, start_within_s: float = START_WITHIN_S) -> None:
    """No deploy cost a failure or a loss, none was slow, and each attempt says that it was handed back."""
    row = deployed.row
    assert (row.failures, row.losses) == (0, 0)
    assert max(deployed.latencies_s) <= start_within_s, deployed.latencies_s
    ended = [attempt for attempt in await lab.attempts(row.job_id) if attempt.outcome is not None]
    outcomes: Sequence[Outcome | None] = [attempt.outcome for attempt in ended]
    assert set(outcomes) <= {Outcome.RELEASED, Outcome.SUCCESS}


async def without_checkpoints(lab: Lab, count: int) -> str:
    deployed = await deploy(lab, count, "nap", {"seconds": 600})
    await unhurt(lab, deployed)
    if count > deployed.row.max_handbacks:
        error = (await lab.result(deployed.row.job_id)).error
        assert error is not None
        assert "handed back 21 times without a newer checkpoint" in error.message, error
        assert error.message.count("released: the worker drains") == deployed.row.max_handbacks + 1
        await lab.delivered()
        await lab.check_answers("app")
    return str(deployed)


async def with_checkpoints(lab: Lab, count: int, *, lazy: bool) -> str:
    step_s, steps = 0.2, 8 * count  # too many for one attempt: only who resumes comes to the end
    deployed = await deploy(lab, count, "steps", {"steps": steps, "step_s": step_s, "lazy": lazy})
    await unhurt(lab, deployed, start_within_s=CHECKPOINT_S + START_WITHIN_S)
    [row] = await lab.ended(deployed.row.job_id, timeout_s=steps * step_s + 30)
    assert row.reason is None
    value = (await lab.result(row.job_id)).value
    assert value["done"] == steps
    assert value["began"] > 0
    await lab.delivered()
    await lab.check_answers("app")
    return str(deployed)


async def run(count: int) -> None:
    runs: dict[str, Callable[[Lab, int], Awaitable[str]]] = {
        "without checkpoints": without_checkpoints,
        "a checkpoint after every step": partial(with_checkpoints, lazy=False),
        "a checkpoint when asked": partial(with_checkpoints, lazy=True),
    }
    for name, act in runs.items():
        with tempfile.TemporaryDirectory(prefix="planrun-deploys-") as folder:
            lab = Lab(Path(folder))
            try:
                print(f"{name}: {await act(lab, count)}", flush=True)
                await lab.check(*[job_id for (job_id,) in lab.rows("SELECT job_id FROM result")])
            finally:
                await lab.close()


def main(minutes: float | None) -> int:
    asyncio.run(run(30 if minutes is None else max(4, min(30, round(minutes * 10)))))
    return 0
