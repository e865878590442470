"""What do the heartbeats of a large fleet cost its orchestrator, and does a grant have to wait for them?

Simulated workers beat every 30 s, each for all its leases, into a SQLite ledger, through the loops that an orchestrator
runs. Without a broker they are handed over in memory; with `--rabbitmq` they come through a private RabbitMQ, with
`--broker` through one that is already there, sent by a process of its own, so that the CPU time is the orchestrator's
alone. Grants are timed without heartbeats first, and then beside them.

    python bench/fleet_beats.py [--workers 10000] [--leases 4] [--seconds 60] [--rabbitmq | --broker amqp://…]
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import cast

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.servers import started
from planrun.clock import SystemClock
from planrun.core.flows import Marker, Notice
from planrun.core.life import Outcome
from planrun.core.messages import (
    Beat,
    Granted,
    GrantRequest,
    Handler,
    Lease,
    Message,
    RenewRequest,
    SettleRequest,
    SubmitRequest,
    WorkerRow,
)
from planrun.core.offers import Offer
from planrun.ledger.contract import Ledger
from planrun.ledger.fleet import FleetLedger
from planrun.orchestrator.duties import Duties
from planrun.orchestrator.fleet import fleet_duties
from planrun.orchestrator.outbox import Outbox
from planrun.orchestrator.publisher import Publisher
from planrun.orchestrator.sweeper import Sweeper
from planrun.transport.contract import FleetTransport
from planrun.wiring import open_fleet_ledger, open_fleet_transport, open_store, open_transport

PERIOD_S = 30.0
LEASE_MS = 90_000
STEP_S = 0.05
AT_ONCE = 100
GRANTS_PER_S = 50
PREFIX = f"bench-{os.getpid()}"
HELD = (Handler(kind="held", version="v1"),)
PROBE = Handler(kind="probe", version="v1")


class InMemory:
    """A transport whose heartbeats are there when they are due. Implements `FleetTransport`."""

    breaks = 0

    def __init__(self, requests: Sequence[RenewRequest]) -> None:
        self._requests = requests
        self._marked: list[Marker] = []
        self._began_s = time.monotonic()
        self._sent = 0
        self.is_on = False

    async def beats(self, *, timeout_s: float) -> Sequence[RenewRequest | Marker]:
        marked, self._marked = self._marked, []
        if not self.is_on:
            self._began_s, self._sent = time.monotonic(), 0
            await asyncio.sleep(timeout_s)
            return marked
        due = int((time.monotonic() - self._began_s) / PERIOD_S * len(self._requests))
        found = [self._requests[n % len(self._requests)] for n in range(self._sent, due)]
        self._sent = due
        return [*found, *marked]

    async def mark(self, marker: Marker) -> None:
        self._marked.append(marker)

    async def begin_epoch(self, epoch: int) -> None: ...

    async def send_offer(self, lane: str, offer: Offer) -> None: ...

    async def waiting(self, lane: str) -> int:
        return 0

    async def tell(self, incarnation: str, notice: Notice) -> None: ...

    async def deliver(self, address: str, message: Message) -> None: ...

    async def orphans(self) -> int:
        return 0

    async def close(self) -> None: ...


async def fill(ledger: FleetLedger, workers: int, leases: int) -> list[RenewRequest]:
    """A fleet all of whose slots are taken."""
    for first in range(0, workers, AT_ONCE):
        rows = [_row(f"w{n}", leases, HELD) for n in range(first, min(first + AT_ONCE, workers))]
        await asyncio.gather(*map(ledger.register, rows))
    jobs = [job for first in range(0, workers * leases, 1_000) for job in await _submit(ledger, "held", first, 1_000)]
    held: dict[str, list[Lease]] = {}
    for first in range(0, workers * leases, AT_ONCE):
        asked = [(jobs[n], f"w{n // leases}") for n in range(first, min(first + AT_ONCE, workers * leases))]
        for lease, (_, name) in zip(
            await asyncio.gather(*(_grant(ledger, *each) for each in asked)), asked, strict=True
        ):
            held.setdefault(name, []).append(lease)
    return [
        RenewRequest(incarnation=name, beats=tuple(Beat(lease=lease) for lease in each), lease_ms=LEASE_MS)
        for name, each in held.items()
    ]


def _row(name: str, slots: int, handlers: tuple[Handler, ...]) -> WorkerRow:
    return WorkerRow(incarnation=name, name=name, host="bench", slots=slots, handlers=handlers)


async def _submit(ledger: FleetLedger, kind: str, first: int, count: int) -> list[str]:
    requests = [
        SubmitRequest(request_id=f"{kind}-{n}", kind=kind, content_hash="c", request_hash="r")
        for n in range(first, first + count)
    ]
    return [reply.job_id for reply in await ledger.submit(requests)]


async def _grant(ledger: FleetLedger, job_id: str, name: str) -> Lease:
    request = GrantRequest(job_id=job_id, attempt=1, incarnation=name, nonce=job_id, lease_ms=LEASE_MS)
    answer = await ledger.grant(request)
    assert isinstance(answer, Granted)
    return answer.lease


async def grants(ledger: FleetLedger, jobs: Iterator[str], seconds: float) -> list[float]:
    """Grant and settle steadily; milliseconds of each grant."""
    taken_ms = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.perf_counter()
        lease = await _grant(ledger, next(jobs), "probe")
        taken_ms.append((time.perf_counter() - began) * 1000)
        await ledger.settle(SettleRequest(lease=lease, outcome=Outcome.SUCCESS))
        await asyncio.sleep(1 / GRANTS_PER_S)
    return sorted(taken_ms)


def send(broker: str, prefix: str, requests: Sequence[RenewRequest]) -> None:
    """The other process: every worker's heartbeats, through one connection."""
    asyncio.run(_send(broker, prefix, requests))


async def _send(broker: str, prefix: str, requests: Sequence[RenewRequest]) -> None:
    clock = SystemClock.open_system()
    end = open_transport(cast("Ledger", None), clock, _row("sender", 1, HELD), broker=broker, broker_prefix=prefix)
    began, sent = time.monotonic(), 0
    while True:
        due = int((time.monotonic() - began) / PERIOD_S * len(requests))
        await asyncio.gather(*(end.beat(requests[n % len(requests)]) for n in range(sent, due)))
        sent = due
        await asyncio.sleep(STEP_S)


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def said(what: str, taken_ms: Sequence[float]) -> str:
    p50, p99 = taken_ms[len(taken_ms) // 2], taken_ms[int(len(taken_ms) * 0.99)]
    return f"{what}: {len(taken_ms)} grants, p50 {p50:.2f} ms, p99 {p99:.2f} ms"


async def measure(args: argparse.Namespace, folder: Path) -> None:
    url, clock = f"sqlite:///{folder}/ledger.db", SystemClock.open_system()
    ledger = open_fleet_ledger(url, clock=clock, warm_after_s=0)
    requests = await fill(ledger, args.workers, args.leases)
    await ledger.register(_row("probe", 1, (PROBE,)))
    wanted = int(2.5 * args.seconds * GRANTS_PER_S) + 100
    jobs = iter([job for first in range(0, wanted, 1_000) for job in await _submit(ledger, "probe", first, 1_000)])
    memory = InMemory(requests)
    transport: FleetTransport = memory
    if args.broker:
        transport = open_fleet_transport(clock, broker=args.broker, broker_prefix=PREFIX, generation=1)
    expiry, more = fleet_duties(ledger, transport, clock)
    duties = Duties(
        ledger,
        clock,
        sweeper=Sweeper(ledger, expiry=expiry, proof_of_death=False),
        outbox=Outbox(ledger, clock, publisher=Publisher(ledger, open_store(url), folder / "public"), environment={}),
        collector=None,
        more=more,
    )
    stop = asyncio.Event()
    running = asyncio.create_task(duties.run(stop))
    await asyncio.sleep(3)
    print(said("without heartbeats", await grants(ledger, jobs, args.seconds / 2)), flush=True)

    sender = multiprocessing.get_context("spawn").Process(
        target=send, args=(args.broker, PREFIX, requests), daemon=True
    )
    if args.broker:
        sender.start()
    memory.is_on = True
    await asyncio.sleep(5)
    began, used = time.monotonic(), cpu_s()
    await asyncio.sleep(args.seconds)
    share = (cpu_s() - used) / (time.monotonic() - began)
    print(f"heartbeats alone: {share:.1%} of one core for {len(requests) / PERIOD_S:.0f} a second", flush=True)
    print(said("beside heartbeats", await grants(ledger, jobs, args.seconds)), flush=True)
    if args.broker:
        sender.kill()
    stop.set()
    await running
    with suppress(Exception):
        await transport.close()
    left = sum((await ledger.running()).values())
    print(f"{left} of {args.workers * args.leases} leases are still held")
    await ledger.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=10_000)
    parser.add_argument("--leases", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=60)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--broker", default="", help="of one that is there")
    where.add_argument("--rabbitmq", action="store_true", help="a private one, for this run")
    asked = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="planrun-bench-", dir="/var/tmp")))
        if asked.rabbitmq:
            asked.broker = stack.enter_context(started("rabbitmq", folder / "rabbitmq")).removesuffix("/")
        asyncio.run(measure(asked, folder))


if __name__ == "__main__":
    main()
