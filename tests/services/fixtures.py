"""Services that the tests of one process share. Each test has names of its own in them, and leaves them running."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deploy.local.rabbitmq import RabbitMQ
from deploy.local.s3 import Ministack


@pytest.fixture(scope="session")
def rabbitmq() -> Iterator[RabbitMQ]:
    """Whoever uses it is marked `needs("rabbitmq-server")`. Whoever stops, kills or wipes it, starts it again."""
    broker = RabbitMQ()
    try:
        broker.start()
        yield broker
    finally:
        broker.remove()


@pytest.fixture(scope="session")
def ministack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ministack]:
    """S3. Whoever stops, kills or freezes it, lets it go on."""
    server = Ministack(tmp_path_factory.mktemp("ministack"))
    server.start()
    yield server
    server.kill()
