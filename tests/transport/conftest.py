from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from deploy.local.rabbitmq import RabbitMQ
from planrun.core.names import digest
from planrun.transport.rabbitmq.address import broker_at
from tests.transport.stage import Stage, a_stage


@pytest.fixture
async def stage(rabbitmq: RabbitMQ, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    """A fleet with queues of its own on the private broker; quorum queues, unless the test says otherwise."""
    query = getattr(request, "param", "queues=quorum")
    async with a_stage(broker_at(f"{rabbitmq.url}?{query}", f"pr-{digest(str(tmp_path))[:12]}"), rabbitmq) as stage:
        yield stage


@pytest.fixture
async def stages(rabbitmq: RabbitMQ, tmp_path: Path) -> AsyncIterator[list[Stage]]:
    """One of each type, for what the broker goes through only once."""
    prefix = f"pr-{digest(str(tmp_path))[:12]}"
    async with (
        a_stage(broker_at(f"{rabbitmq.url}?queues=quorum", f"{prefix}-q"), rabbitmq) as quorum,
        a_stage(broker_at(f"{rabbitmq.url}?queues=classic", f"{prefix}-c"), rabbitmq) as classic,
    ):
        yield [quorum, classic]
