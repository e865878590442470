"""Services that the tests of one process share. Each test has names of its own in them, and leaves them running."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deploy.local.rabbitmq import RabbitMQ


@pytest.fixture(scope="session")
def rabbitmq() -> Iterator[RabbitMQ]:
    """Whoever uses it is marked `needs("rabbitmq-server")`. Whoever stops, kills or wipes it, starts it again."""
    broker = RabbitMQ()
    try:
        broker.start()
        yield broker
    finally:
        broker.remove()
