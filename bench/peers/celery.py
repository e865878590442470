"""Celery on RabbitMQ, results in Redis. One at a time, acknowledged when done, given back when the process dies.

By default SIGTERM waits for the job; here it is a soft shutdown of 10 s, after which the job goes back to the broker.
"""

from __future__ import annotations

import os

from celery import Celery

from bench.peers import note

TOLD = note.told()
APP = Celery("bench", broker=TOLD.server["rabbitmq"], backend=f"{TOLD.server['redis']}/2")
APP.conf.update(
    task_default_queue="bench",
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    worker_soft_shutdown_timeout=10,
    broker_connection_retry_on_startup=True,
    broker_transport_options={"confirm_publish": True},
)
noop = APP.task(name="noop")(note.noop)
sleep = APP.task(name="sleep")(note.sleep)


class Connection:
    def submit(self, number: int) -> None:
        noop.delay(number)

    def submit_long(self, seconds: float) -> None:
        sleep.delay(seconds)

    def close(self) -> None:
        APP.close()


def prepare() -> None:
    with APP.connection_for_write() as connection:
        connection.default_channel.queue_delete("bench")


def connect() -> Connection:
    return Connection()


def workers(count: int) -> list[list[str]]:
    command = ["env", "REMAP_SIGTERM=SIGQUIT", str(TOLD.binaries / "celery"), "-A", "bench.peers.celery", "worker"]
    options = ["-l", "WARNING", "-P", "prefork", "-c", str(TOLD.slots)]
    return [[*command, *options, "-n", f"{os.getpid()}-{number}@%h"] for number in range(count)]
