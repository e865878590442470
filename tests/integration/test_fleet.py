"""A fleet over real services: what is submitted over HTTP runs on another worker, once, and its result lies in S3."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from deploy.local.rabbitmq import RabbitMQ
from deploy.local.s3 import Ministack
from planrun.core.life import State

from ..fleet import Fleet

pytestmark = [pytest.mark.anyio, pytest.mark.needs("rabbitmq-server")]


@pytest.fixture
async def fleet(tmp_path: Path, rabbitmq: RabbitMQ, ministack: Ministack) -> AsyncIterator[Fleet]:
    fleet = Fleet(tmp_path, broker=rabbitmq, s3=ministack)
    yield fleet
    await fleet.end()


async def test_a_job_goes_out_over_the_broker_and_its_file_into_the_bucket(fleet: Fleet) -> None:
    fleet.start_orchestrator()
    fleet.start_worker()
    fleet.start_worker()
    await fleet.ready(2)

    jobs = [await fleet.submit("render", {"bytes": 1000 + n, "seconds": 0.1}) for n in range(6)]
    rows = await fleet.ended(*jobs)

    assert [row.state for row in rows] == [State.FINISHED] * 6, fleet.last_words()
    assert sorted(start.job_id for start in fleet.starts()) == sorted(jobs)
    assert len({row.worker for row in rows}) == 2
    for job_id in jobs:
        await fleet.check_object(job_id)


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
