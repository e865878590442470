"""A fleet over real services: what is submitted over HTTP runs on another worker, once, and its result lies in S3."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from ..fleet import Fleet
from ..services.rabbitmq import RabbitMQ
from ..services.s3 import Ministack

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

    for n in range(6):
        await fleet.submit("render", {"bytes": 1000 + n, "seconds": 0.1})

    assert await fleet.all_ended_once() == 6
    assert not fleet.stored(), "nothing lies beside the ledger"
