"""A fleet over real services: what is submitted over HTTP runs on another worker, once, and its result lies in S3."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from deploy.local.rabbitmq import RabbitMQ
from deploy.local.s3 import Ministack
from planrun.core.life import State

from ..fleet import Fleet

pytestmark = [pytest.mark.anyio, pytest.mark.needs("rabbitmq-server")]


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[Ministack]:
    server = Ministack(tmp_path / "s3")
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def fleet(tmp_path: Path, rabbitmq: RabbitMQ, s3: Ministack) -> AsyncIterator[Fleet]:
    fleet = Fleet(tmp_path, broker=rabbitmq, s3=s3)
    yield fleet
    await fleet.end()


async def test_a_job_goes_out_over_the_broker_and_its_file_into_the_bucket(fleet: Fleet) -> None:
    fleet.start_orchestrator()
    fleet.start_worker()
    fleet.start_worker()
    await fleet.ready(2)

    jobs = [await fleet.submit("render", {"bytes": 1000 + n, "seconds": 0.1}) for n in range(6)]

    assert await fleet.all_ended_once() == 6
    assert not fleet.stored(), "nothing lies beside the ledger"
    assert len({(await fleet.job(job_id)).worker for job_id in jobs}) == 2


async def test_a_rate_is_changed_while_the_orchestrator_runs(fleet: Fleet) -> None:
    fleet.start_orchestrator("--rate", "render=0/s")
    fleet.start_worker()
    await fleet.ready(1)
    job = await fleet.submit("render", {"bytes": 10, "seconds": 0})
    assert fleet.planrun("rate") == "kind    at most\nrender  0/s\n"
    assert (await fleet.job(job)).state is State.QUEUED

    fleet.planrun("rate", "render", "any")

    await fleet.ended(job)
    assert await fleet.ledger.rates() == {}
