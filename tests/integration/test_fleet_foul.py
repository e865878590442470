"""What does not belong into a fleet: it is refused in words, or put aside, and no job is lost by it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from aiormq import spec

from deploy.local.rabbitmq import NEEDS, RabbitMQ
from planrun.clock import SystemClock
from planrun.core.life import Reason, State
from planrun.ledger.wire import BODY_BYTES_MAX
from planrun.transport.rabbitmq.link import Link, look_at
from planrun.transport.rabbitmq.topology import Topology
from planrun.transport.rabbitmq.wire import HEADER

from ..fleet import Fleet
from ..lab import boottime
from ..stepped_clock import SteppedClock

pytestmark = [pytest.mark.anyio, pytest.mark.needs(NEEDS), pytest.mark.slow, pytest.mark.timeout(180)]

PREFIX = "pr-foul"
UNKNOWN_JOB = (
    b'{"job_id":"7b1f6a52-0000-5000-8000-000000000000","attempt":1,"namespace":"default","kind":"nap","version":"v1"}'
)
FOUL: list[tuple[bytes, dict[str, str]]] = [
    (b"\xff\x00garbage", {}),
    (b"", {HEADER: "offer/1"}),
    (b'{"job_id":"j1"}', {HEADER: "offer/2"}),
    (b"[" * 10_000, {HEADER: "beat/1"}),
    (b'{"stamp_ms":99999999999999,"nonce":"made up"}', {HEADER: "marker/1"}),
    (b"{}", {HEADER: "notice/9"}),
    (UNKNOWN_JOB, {HEADER: "offer/1"}),
    (b'{"incarnation":"i","beats":[],"lease_ms":4611686018427387904}', {HEADER: "beat/1"}),
]


@pytest.fixture
async def fleet(tmp_path: Path, rabbitmq: RabbitMQ) -> AsyncIterator[Fleet]:
    fleet = Fleet(tmp_path, broker=rabbitmq, prefix=PREFIX, options=("--warm-after-s", "0"))
    fleet.start_orchestrator()
    yield fleet
    await fleet.end()


async def test_foul_messages_in_every_queue_are_put_aside_and_cost_no_job(fleet: Fleet, rabbitmq: RabbitMQ) -> None:
    """Garbage, unknown versions, another's messages, a marker that nobody made and a job that nobody knows."""
    workers = [fleet.start_worker(slots=2) for _ in range(2)]
    await fleet.ready(2)
    running = await fleet.submit_all("nap", 3, seconds=4)
    for job_id in running:
        await fleet.started(job_id, 1)
    queues = [name for name, *_ in await asyncio.to_thread(rabbitmq.queues) if name.startswith(f"{PREFIX}.")]
    link = Link(rabbitmq.url, SystemClock.open_system(), name="somebody")
    for body, headers in FOUL:
        async with link.borrowed() as channel:
            properties = spec.Basic.Properties(headers=dict(headers))
            await channel.basic_publish(body, exchange=f"{PREFIX}.beats", properties=properties)
            for queue in queues:
                await channel.basic_publish(body, routing_key=queue, properties=properties)
    await fleet.submit_all("nap", 6, seconds=0.1)

    assert await fleet.all_ended_once() == 9
    assert [worker.process.poll() for worker in workers] == [None, None]

    async def are_aside() -> bool:
        dead, orphans = [await look_at(link, queue) for queue in (Topology(PREFIX).dead, Topology(PREFIX).orphans)]
        return dead >= len(FOUL) and orphans >= 1

    await fleet.until(are_aside, "they lie aside")
    await link.drop()


async def test_foul_calls_are_refused_in_words_and_cost_no_job(fleet: Fleet) -> None:
    """A wrong token, garbage, a verb that nobody knows, a body without measure."""
    fleet.start_worker()
    await fleet.ready(1)
    job_id = await fleet.submit("nap", {"seconds": 3})
    await fleet.started(job_id, 1)

    def refused(verb: str, body: bytes, **headers: str) -> tuple[int, str]:
        sent = {"Authorization": f"Bearer {fleet.token}", "Content-Type": "application/json"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        with pytest.raises(HTTPError) as caught:
            urlopen(Request(f"{fleet.remote_url}/v1/ledger/{verb}", data=body, headers=sent), timeout=20)
        said = json.loads(caught.value.read())
        return caught.value.code, said["detail"]

    cancel = json.dumps({"request": {"namespace": "default", "job_id": job_id}}).encode()
    seen = {
        "token": refused("cancel", cancel, Authorization="Bearer wrong"),
        "garbage": refused("cancel", b"\xff{"),
        "verb": refused("destroy", b"{}"),
        "body": refused("submit", b" " * (BODY_BYTES_MAX + 1)),
    }

    assert {what: code for what, (code, _) in seen.items()} == {"token": 401, "garbage": 400, "verb": 404, "body": 413}
    assert all(detail for _, detail in seen.values())
    assert await fleet.all_ended_once() == 1


async def test_c12_workers_whose_clocks_are_an_hour_off_keep_their_leases(fleet: Fleet, tmp_path: Path) -> None:
    """Leases are lengths of time, never points of somebody's clock; and delays are the ledger's."""
    for hours in (-1, 1):
        clock = SteppedClock.new(tmp_path / f"clock{hours}")
        clock.set(hours * 3600)
        fleet.start_worker(environment=clock.environment)
    await fleet.ready(2)
    await fleet.submit_all("nap", 2, seconds=9)  # longer than a lease
    await fleet.submit("nap", {"seconds": 0}, delay_s=2)

    assert await fleet.all_ended_once() == 3


async def test_c27_what_kills_its_process_is_exhausted_and_takes_nobody_along(fleet: Fleet) -> None:
    workers = [fleet.start_worker(slots=2) for _ in range(2)]
    await fleet.ready(2)
    poison = [await fleet.submit("die", {"signal": name}, max_attempts=2) for name in ("SIGSEGV", "SIGKILL")]
    good = await fleet.submit_all("nap", 12, seconds=0.2)

    rows = await fleet.ended(*poison, *good)

    assert [(row.state, row.reason) for row in rows[:2]] == [(State.FAILED, Reason.EXHAUSTED)] * 2
    assert {row.state for row in rows[2:]} == {State.FINISHED}
    assert [len(fleet.starts(job_id)) for job_id in poison] == [2, 2]
    assert [len(fleet.starts(job_id)) for job_id in good] == [1] * 12
    assert [worker.process.poll() for worker in workers] == [None, None]
    await fleet.check(*poison, *good)


async def test_c29_delays_are_kept_through_restarts_of_everything(fleet: Fleet, rabbitmq: RabbitMQ) -> None:
    """The broker, the orchestrator and the worker, in turn, while jobs wait for their time."""
    worker = fleet.start_worker(slots=4)
    await fleet.ready(1)
    jobs = [await fleet.submit("warmly", {"n": n}, delay_s=8) for n in range(20)]
    [(first_due_ms, last_due_ms)] = fleet.rows("SELECT min(not_before_ms), max(not_before_ms) FROM job")

    await asyncio.to_thread(rabbitmq.stop)
    await asyncio.to_thread(rabbitmq.start)
    fleet.kill_orchestrator()
    fleet.start_orchestrator()
    worker.kill()
    again = fleet.start_worker(slots=4)
    await fleet.ready_as(again)
    back_s = boottime()

    assert await fleet.all_ended_once() == len(jobs)
    starts = [start.at for start in fleet.starts()]
    assert min(starts) >= first_due_ms / 1000
    assert max(starts) < max(last_due_ms / 1000, back_s) + 10
