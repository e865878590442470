"""A worker and an orchestrator of a fleet die at every step from an offer to an answer: the outcome of each is known.

Nothing that dies before the settle is seen by anybody; what dies after it has happened. A job that was never
begun costs no start, and a call whose answer got lost is answered the same again.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from deploy.local.rabbitmq import RabbitMQ
from deploy.local.s3 import Ministack
from planrun.core.life import State
from tests.fleet import Fleet

LEASE_S = 2.0
TIMEOUT_S = 90.0
AT_ONCE = 4  # with more of them the brake on many silent workers holds


class Outcome(NamedTuple):
    """Attributes:
    attempt: Whose result it is.
    starts: How often job code was started.
    """

    attempt: int
    starts: int


# Steps of a worker that is killed there, in their order.
WORKER: Mapping[str, Outcome] = {
    "grant:asking": Outcome(1, 1),  # the offer comes again
    "grant:answered": Outcome(2, 1),  # between grant and acknowledgement: one lease
    "grant:acknowledged": Outcome(2, 1),  # between acknowledgement and start: one lease
    "job:done": Outcome(2, 2),  # its files lie in scratch
    "fence:after-check": Outcome(2, 2),  # nothing is stored
    "upload:before-complete": Outcome(2, 2),
    "settle:before": Outcome(2, 2),  # a file under a key that nobody names
    "settle:answered": Outcome(1, 1),  # it has happened: the worker is not needed any more
}
# Steps of an orchestrator that is killed there and started again, and what may come of it.
ORCHESTRATOR: Mapping[str, Sequence[Outcome]] = {
    "grant:written": [Outcome(1, 1)],  # not granted: the offer comes again
    # Granted: asked again, it answers with the same token; unless it was away for longer than this short lease.
    "grant_first:answering": [Outcome(1, 1), Outcome(2, 1)],
    "standing:answering": [Outcome(1, 1)],
    "settle:written": [Outcome(1, 1)],  # not settled: asked for again
    "settle:answering": [Outcome(1, 1)],  # settled: answered the same again
}


async def reached(fleet: Fleet, trips: Path, step: str) -> int:
    """Wait until a process stands at that step; its id."""

    async def found() -> Path | None:
        return next(trips.glob(f"{step}.*.reached"), None)

    path = await fleet.until(found, f"{step} is reached", timeout_s=TIMEOUT_S)
    return int(path.name.split(".")[1])


async def workers_die(fleet: Fleet, steps: Sequence[str]) -> None:
    """One at each step, side by side; another one then finishes what they had."""
    jobs = {}
    for step in steps:
        trips = fleet.folder / step
        trips.mkdir()
        (trips / step).touch()
        fleet.start_worker(name=f"dies at {step}", capabilities=[step], environment={"PLANRUN_TRIP_DIR": str(trips)})
    for step, worker in zip(steps, fleet.workers[-len(steps) :], strict=True):
        await fleet.ready_as(worker)
        jobs[step] = await fleet.submit("render", {"seconds": 0.3, "step": step}, needs=(step,))
    for step in steps:
        os.kill(await reached(fleet, fleet.folder / step, step), signal.SIGKILL)
    rescuer = fleet.start_worker(name="rescuer", capabilities=list(steps), slots=len(steps))
    rows = await fleet.ended(*jobs.values(), timeout_s=TIMEOUT_S)
    seen = {}
    for step, row in zip(steps, rows, strict=True):
        assert row.state is State.FINISHED, (step, row)
        seen[step] = Outcome((await fleet.result(row.job_id)).attempt, len(fleet.starts(row.job_id)))
    assert seen == {step: WORKER[step] for step in steps}, fleet.last_words()
    await fleet.check(*jobs.values())
    rescuer.process.terminate()
    rescuer.wait()


async def orchestrator_dies(fleet: Fleet, step: str) -> None:
    """There, and is started again; a worker's call is made again."""
    assert fleet.trips is not None
    (fleet.trips / step).touch()
    job_id = await fleet.submit("render", {"seconds": 0.3, "step": step})
    await reached(fleet, fleet.trips, step)
    fleet.kill_orchestrator()
    fleet.start_orchestrator()
    (row,) = await fleet.ended(job_id, timeout_s=TIMEOUT_S)
    seen = Outcome((await fleet.result(job_id)).attempt, len(fleet.starts(job_id)))
    assert row.state is State.FINISHED and seen in ORCHESTRATOR[step], (step, row.state, seen, fleet.last_words())
    await fleet.check(job_id)


async def stand(folder: Path, broker: RabbitMQ, *, worker: Sequence[str], orchestrator: Sequence[str]) -> None:
    """The deaths of these steps."""
    trips = folder / "trips"
    trips.mkdir()
    s3 = Ministack(folder / "s3")
    fleet = Fleet(folder, broker=broker, s3=s3, lease_s=LEASE_S, options=("--warm-after-s", "0"), trips=trips)
    try:
        s3.start()
        fleet.start_orchestrator()
        for steps in (worker[n : n + AT_ONCE] for n in range(0, len(worker), AT_ONCE)):
            await workers_die(fleet, steps)
            print(f"a worker died at {', '.join(steps)}: outcomes as they should be", flush=True)
        if orchestrator:
            fleet.start_worker()
        for step in orchestrator:
            await orchestrator_dies(fleet, step)
            print(f"the orchestrator died at {step}: outcome as it should be", flush=True)
    finally:
        await fleet.end()
        s3.kill()


def main(_minutes: float | None) -> int:
    broker = RabbitMQ()
    try:
        broker.start()
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(stand(Path(folder), broker, worker=tuple(WORKER), orchestrator=tuple(ORCHESTRATOR)))
    finally:
        broker.remove()
    return 0
