"""What is read of a broker's address, and what is shown of it."""

from __future__ import annotations

import pytest

from planrun.config import broker_from
from planrun.core.errors import Invalid
from planrun.transport.rabbitmq.address import broker_at


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("amqp://guest:secret@127.0.0.1:5672/", "amqp://guest@127.0.0.1:5672/"),
        ("amqps://u:secret@broker.example/media?cafile=/ca.pem", "amqps://u@broker.example/media"),
        ("amqp://u:secret@[::1]:5672", "amqp://u@[::1]:5672"),
        ("amqp://broker", "amqp://broker"),
    ],
)
def test_an_address_is_shown_without_its_password(url: str, shown: str) -> None:
    assert str(broker_at(url, "pr")) == shown


def test_what_planrun_reads_of_the_query_is_not_passed_on() -> None:
    broker = broker_at("amqps://broker/?queues=classic&cafile=/ca.pem", "pr")

    assert (broker.url, broker.topology.queue_type) == ("amqps://broker/?cafile=%2Fca.pem&heartbeat=10", "classic")
    assert broker_at("amqp://broker", "pr").topology.queue_type == "quorum"


@pytest.mark.parametrize(
    ("url", "prefix"),
    [
        ("http://u:secret@broker/", "pr"),
        ("amqp://", "pr"),
        ("amqp://u:secret@broker:port/", "pr"),
        ("amqp://u:secret@[broker/", "pr"),
        ("u:secret@broker", "pr"),
        ("amqp://u:secret@broker/?queues=stream", "pr"),
        ("amqp://u:secret@broker/", "p r"),
    ],
)
def test_an_address_that_cannot_be_right_is_refused_without_its_password(url: str, prefix: str) -> None:
    with pytest.raises(Invalid) as refused:
        broker_at(url, prefix)

    assert "secret" not in str(refused.value)


def test_a_worker_may_know_the_broker_of_its_fleet_by_another_name() -> None:
    here = {"PLANRUN_BROKER": "amqp://outside"}

    assert broker_from("amqp://inside", here) == "amqp://outside"
    assert broker_from("amqp://inside", {}) == "amqp://inside"
    assert broker_from("", here) == ""  # a fleet without a broker stays without
