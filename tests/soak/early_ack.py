"""Offers are acknowledged within milliseconds: a broker with a patience of 5 s closes no channel of a long job."""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deploy.local.rabbitmq import RabbitMQ
from planrun.clock import SystemClock
from planrun.core.messages import Granted, Lease
from planrun.ledger.contract import Ledger
from planrun.transport import intake
from planrun.transport.intake import BrokerOffer
from planrun.transport.rabbitmq.address import Broker, broker_at
from planrun.transport.rabbitmq.fleet import RabbitFleet
from planrun.transport.rabbitmq.worker import RabbitWorker
from planrun.wiring import open_ledger
from tests.contract.actors import Actors, a_worker
from tests.contract.fleet_transport_contract import LANE
from tests.contract.transport_contract import a_beat

WORKERS = 64
PATIENCE_MS = 5_000
LONG_S = 150.0
LEASE_MS = 90_000
LONGEST_S = 2.0  # far below the broker's patience; a p99 of 10 ms is aimed at, on a machine that does nothing else
Took = dict[bool, list[float]]


class Timed(BrokerOffer):
    """Notes how long it took from its arrival to its acknowledgement."""

    took_s: list[float]

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._came_s = time.perf_counter()

    async def done(self, lease: Lease | None = None) -> None:
        await super().done(lease)
        if lease is not None:
            Timed.took_s.append(time.perf_counter() - self._came_s)


class Fleet:
    """The least that moves jobs over a broker: a ledger, and workers that do nothing."""

    def __init__(self, broker: Broker, ledger: Ledger) -> None:
        self.clock = SystemClock.open_system()
        self.ledger = ledger
        self.they = Actors(ledger, self.clock)  # type: ignore[arg-type]  # only what needs no pretended clock
        self.transport = RabbitFleet(broker, self.clock, generation=1)
        self.workers = [
            RabbitWorker(broker, ledger, self.clock, incarnation=f"w{n}", lane=LANE) for n in range(WORKERS)
        ]
        self.starts = 0

    async def join(self) -> None:
        for n, worker in enumerate(self.workers):
            await self.ledger.register(a_worker(f"w{n}", seen_at_ms=self.clock.now().wall_ms))
            self.they.ready.add(f"w{n}")
            await worker.changed(timeout_s=30)
        await self.transport.begin_epoch(1)

    async def submit(self) -> None:
        job_id = (await self.they.submit()).job_id
        [offer] = [offer for offer in await self.they.offers() if offer.job_id == job_id]
        await self.transport.send_offer(LANE, offer)

    async def start_one(self, n: int) -> Lease:
        """One worker with one place takes one job."""
        while True:
            for offer in await self.workers[n].offers(1):
                job_id, attempt = offer.offer.job_id, offer.offer.attempt
                granted = await self.they.ask(job_id, attempt, by=f"w{n}", lease_ms=LEASE_MS)
                if isinstance(granted, Granted):
                    await offer.done(granted.lease)
                    self.starts += 1
                    return granted.lease
                await offer.done()
            await self.workers[n].changed(timeout_s=5)

    async def run_short(self, n: int) -> None:
        lease = await self.start_one(n)
        await self.workers[n].offers(0)
        await self.they.succeed(lease)

    async def run_all(self, *, at_once: bool) -> None:
        """Every worker but the first one takes a short job: all in the same moment, or one every few milliseconds."""
        if not at_once:
            running = [asyncio.create_task(self.run_short(n)) for n in range(1, WORKERS)]
        for _ in range(WORKERS - 1):
            await self.submit()
            if not at_once:
                await asyncio.sleep(0.01)
        await asyncio.gather(*(running if not at_once else (self.run_short(n) for n in range(1, WORKERS))))

    async def run_long(self, seconds: float) -> None:
        """The first worker has a job for so long; its heartbeats go over the broker."""
        await self.submit()
        lease = await self.start_one(0)
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            assert await self.workers[0].beat(a_beat(lease, by="w0")) is None
            await asyncio.sleep(0.5)
        assert (await self.they.succeed(lease)).status == "won"

    async def take_beats(self) -> None:
        while True:
            await self.transport.beats(timeout_s=1)

    async def close(self) -> None:
        for worker in self.workers:
            await worker.close()
        await self.transport.close()


async def run(broker: Broker, folder: Path, seconds: float, took_s: Took) -> tuple[int, Fleet]:
    ledger = open_ledger(f"sqlite:///{folder}/ledger.db")
    fleet = Fleet(broker, ledger)
    jobs = 1
    try:
        await fleet.join()
        taking = asyncio.create_task(fleet.take_beats())
        long = asyncio.create_task(fleet.run_long(seconds))
        while not long.done():
            for at_once in (True, False):
                Timed.took_s = took_s[at_once]
                await fleet.run_all(at_once=at_once)
                jobs += WORKERS - 1
        await long
        taking.cancel()
    finally:
        await fleet.close()
        await ledger.close()
    return jobs, fleet


def shown(took_s: Sequence[float]) -> str:
    p50, p99 = (statistics.quantiles(took_s, n=100)[at] for at in (49, 98))
    return f"p50 {p50 * 1000:.1f} ms, p99 {p99 * 1000:.1f} ms"


def main(minutes: float | None = None) -> int:
    seconds = LONG_S if minutes is None else min(LONG_S, minutes * 60)
    intake.BrokerOffer = Timed  # type: ignore[misc]
    rabbitmq = RabbitMQ(consumer_timeout_ms=PATIENCE_MS)
    held = True
    try:
        rabbitmq.start()
        for queue_type in ("quorum", "classic"):
            broker = broker_at(f"{rabbitmq.url}?queues={queue_type}", f"pr-{queue_type}")
            took_s: Took = {True: [], False: []}
            with tempfile.TemporaryDirectory() as folder:
                jobs, fleet = asyncio.run(run(broker, Path(folder), seconds / 2, took_s))
            closed = rabbitmq.log.count("timed out waiting for delivery acknowledgement")
            print(
                f"{queue_type}: {jobs} jobs, {fleet.starts} starts, one of {seconds / 2:.0f} s under a patience of "
                f"{PATIENCE_MS / 1000:.0f} s: {closed} channels closed, {fleet.transport.breaks} breaks"
            )
            print(f"  delivery to acknowledgement, {WORKERS} workers, one after the other: {shown(took_s[False])}")
            print(f"  delivery to acknowledgement, {WORKERS} in the same moment: {shown(took_s[True])}")
            held &= (fleet.starts, closed, fleet.transport.breaks) == (jobs, 0, 0) and max(*took_s[False]) <= LONGEST_S
    finally:
        rabbitmq.remove()
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else None))
