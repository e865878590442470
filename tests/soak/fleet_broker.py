"""The broker of a fleet is killed, purged, frozen, or forgets everything, with 1 000 jobs queued and 20 running.

Each job is started once: what lies in a broker are hints, and a worker that it does not hear asks the ledger. Then it
is restarted 20 times at moments of chance, gently or not, and each time a job goes through within half a minute.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from deploy.local.rabbitmq import OLD_ENOUGH_S, RabbitMQ
from planrun.clock import SystemClock
from planrun.transport.rabbitmq.link import Link
from tests.fleet import Fleet

QUEUED, RUNNING = 1_000, 20
RUN_S = 20.0
FROZEN_S = 15.0
TIMEOUT_S = 900.0
RESTARTS = 20
PROBE_S = 30.0


def kill(broker: RabbitMQ) -> None:
    broker.kill()
    broker.start()


def purge(broker: RabbitMQ) -> None:
    for name, *_ in broker.queues():
        broker.control("purge_queue", name)


def delete(broker: RabbitMQ) -> None:
    """All queues, as an operator might, also the one that heartbeats come through."""

    async def delete_all(names: list[str]) -> None:
        link = Link(broker.url, SystemClock.open_system(), name="an operator")
        for name in names:
            async with link.borrowed() as channel:
                await channel.queue_delete(name)
        await link.drop()

    asyncio.run(delete_all([name for name, *_ in broker.queues()]))


def wipe(broker: RabbitMQ) -> None:
    broker.wipe()
    broker.start()


def freeze(broker: RabbitMQ) -> None:
    """Longer than two leases."""
    broker.freeze()
    time.sleep(FROZEN_S)
    broker.thaw()


STRIKES: Mapping[str, Callable[[RabbitMQ], None]] = {
    "killed": kill,
    "all queues purged": purge,
    "all queues deleted": delete,
    "data deleted": wipe,
    "frozen": freeze,
}


async def strike(fleet: Fleet, how: str, *, queued: int, running: int, run_s: float) -> str:
    """So many jobs wait, and so many run, while it happens. What was seen, in words."""
    assert fleet.broker is not None
    before = len(fleet.starts())
    await fleet.submit_all("nap", running, seconds=run_s)

    async def all_run() -> bool:
        return len(fleet.starts()) >= before + running

    await fleet.until(all_run, "they run", timeout_s=60)
    await fleet.submit_all("warmly", queued)
    await asyncio.sleep(1)
    began_s = time.monotonic()
    await asyncio.to_thread(STRIKES[how], fleet.broker)
    struck_s = time.monotonic() - began_s
    count = await fleet.all_ended_once(timeout_s=TIMEOUT_S)
    took_s = time.monotonic() - began_s
    return (
        f"{how} ({struck_s:.0f} s): {count} jobs so far, {len(fleet.starts())} starts; all ended {took_s:.0f} s later"
    )


async def restarted(fleet: Fleet, *, times: int, chance: random.Random) -> str:
    """C21: so often, with jobs under way. What was seen, in words."""
    assert fleet.broker is not None
    slowest_s = 0.0
    for n in range(times):
        await fleet.submit_all("warmly", 20, restart=n)
        await asyncio.sleep(chance.uniform(0, 3))
        await asyncio.to_thread(chance.choice((fleet.broker.stop, fleet.broker.kill)))
        await asyncio.to_thread(fleet.broker.start)
        began_s = time.monotonic()
        await fleet.ended(await fleet.submit("warmly", {"probe": n}), timeout_s=PROBE_S)
        slowest_s = max(slowest_s, time.monotonic() - began_s)
    count = await fleet.all_ended_once(timeout_s=TIMEOUT_S)
    return f"{times} restarts: {count} jobs so far, {len(fleet.starts())} starts; a job took {slowest_s:.1f} s at most"


async def stand(folder: Path, broker: RabbitMQ, *, queued: int, running: int, run_s: float, restarts: int) -> None:
    fleet = Fleet(folder, broker=broker)
    try:
        fleet.start_orchestrator()
        for _ in range(2):
            fleet.start_worker(slots=running // 2)
        await fleet.ready(2)
        await asyncio.sleep(OLD_ENOUGH_S)  # what the broker itself needs
        for how in STRIKES:
            print(await strike(fleet, how, queued=queued, running=running, run_s=run_s), flush=True)
        print(await restarted(fleet, times=restarts, chance=random.Random()), flush=True)
    finally:
        await fleet.end()


def main(minutes: float | None) -> int:
    share = 1.0 if minutes is None else min(1.0, minutes / 15)
    broker = RabbitMQ()
    try:
        broker.start()
        with tempfile.TemporaryDirectory() as folder:
            queued = max(20, int(QUEUED * share))
            restarts = max(2, int(RESTARTS * share))
            asyncio.run(stand(Path(folder), broker, queued=queued, running=RUNNING, run_s=RUN_S, restarts=restarts))
    finally:
        broker.remove()
    return 0
