"""Dramatiq on RabbitMQ. One process with one thread, acknowledged when done; publisher confirms, no results kept."""

from __future__ import annotations

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker

from bench.peers import note

TOLD = note.told()
QUEUE = "bench-dramatiq"
BROKER = RabbitmqBroker(url=TOLD.server["rabbitmq"].removesuffix("/"), confirm_delivery=True)
dramatiq.set_broker(BROKER)
noop = dramatiq.actor(queue_name=QUEUE, actor_name="noop")(note.noop)
sleep = dramatiq.actor(queue_name=QUEUE, actor_name="sleep")(note.sleep)


class Connection:
    def submit(self, number: int) -> None:
        noop.send(number)

    def submit_long(self, seconds: float) -> None:
        sleep.send(seconds)

    def close(self) -> None:
        BROKER.close()


def prepare() -> None:
    for name in (QUEUE, f"{QUEUE}.DQ", f"{QUEUE}.XQ"):
        BROKER.channel.queue_delete(name)


def connect() -> Connection:
    return Connection()


def workers(count: int) -> list[list[str]]:
    command = [str(TOLD.binaries / "dramatiq"), "bench.peers.dramatiq", "--processes", "1"]
    return [[*command, "--threads", str(TOLD.slots), "--skip-logging"]] * count
