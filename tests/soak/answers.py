"""The orchestrator is killed at some moment after each of 100 ends: every application acts once on every answer (C35).

The seed is printed: CHAOS_SEED repeats it.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import tempfile
import time
from pathlib import Path

from deploy.local.rabbitmq import NEEDS, RabbitMQ
from planrun.client import AsyncClient
from planrun.clock import SystemClock
from planrun.storage.filesystem import FilesystemStore
from planrun.wiring import open_ledger
from tests.client.stand_in import Hands
from tests.e2e.fleet import FleetOfOneBox, opened
from tests.orchestrator.test_answers_once import SECRET, Application

ROUNDS = 100
KILLED_WITHIN_S = 0.05
TOLD_WITHIN_S = 120.0


def main(minutes: float | None) -> int:
    seed = os.environ.get("CHAOS_SEED", str(random.randrange(2**32)))
    print(f"seed {seed}", flush=True)
    if shutil.which(NEEDS) is None:
        print(f"not installed: {NEEDS}")
        return 0
    ends_at_s = time.monotonic() + 60 * (60.0 if minutes is None else minutes)
    broker = RabbitMQ()
    with tempfile.TemporaryDirectory() as folder:
        application = Application(Path(folder), broker)
        environment = os.environ | {"PLANRUN_WEBHOOK_SECRET": SECRET}
        environment.pop("PLANRUN_TOKEN", None)
        try:
            broker.start()
            application.start()
            with opened(Path(folder), environment) as fleet:
                asyncio.run(killed_after_each_end(fleet, application, random.Random(seed), ends_at_s))
        finally:
            application.kill()
            broker.remove()
    return 0


async def killed_after_each_end(
    fleet: FleetOfOneBox, application: Application, chance: random.Random, ends_at_s: float
) -> None:
    """Two are to be told of each job: one through a queue, one by webhook."""
    assert application.broker is not None
    told = ("--broker", application.broker.url, "--allow-webhook", "127.0.0.1")
    routes = [application.subscribers[0], application.subscribers[-1]]
    owed: list[str] = []
    owner = fleet.orchestrate(*told)
    clock = SystemClock.open_system()
    ledger = open_ledger(fleet.url, clock=clock)
    hands = Hands(ledger, FilesystemStore(fleet.folder / "store"), clock)
    await hands.register()
    async with AsyncClient(fleet.url) as client:
        while len(owed) < ROUNDS * len(routes) and time.monotonic() < ends_at_s:
            job = await client.submit("preview", subscribers=routes)
            await hands.finish(job.id)
            await asyncio.sleep(chance.uniform(0, KILLED_WITHIN_S))
            owner.kill()
            owner.wait()
            owner = fleet.orchestrate(*told)
            owed += [f"result:{job.id}:{route}" for route in routes]
    await ledger.close()
    async with asyncio.timeout(TOLD_WITHIN_S):
        while len(application.bookings()) < len(owed):  # noqa: ASYNC110 -- of another process
            await asyncio.sleep(0.2)
    assert await application.told_by() == sorted(owed)
    print(f"{len(owed) // len(routes)} rounds, {len(owed)} answers, each booked once", flush=True)
