"""Celery on RabbitMQ, results in Redis. One at a time, acknowledged when done, given back when the process dies.

By default SIGTERM waits for the job; here it is a soft shutdown, after which the job goes back to the broker.
"""

from __future__ import annotations

import os

from celery import Celery, Task

from bench.peers import note

SETTINGS = {
    "task_acks_late=True": "acknowledged when done: the job of a killed worker is delivered again",
    "task_reject_on_worker_lost=True": "without it, a job whose process alone is killed is acknowledged as failed",
    "worker_prefetch_multiplier=1": "no job waits behind a long one of the same worker",
    "worker_soft_shutdown_timeout=TOLD.grace_s - note.MARGIN_S": "what outlasts it goes back to the broker",
    "REMAP_SIGTERM=SIGQUIT": "the soft shutdown answers SIGQUIT alone",
    "broker_heartbeat=10": "a frozen worker's connection ends after 10 to 20 s; by default after a minute or two",
    "worker_cancel_long_running_tasks_on_connection_loss=True": "what was delivered to another is not run to its end",
    "worker_deduplicate_successful_tasks=True": "what is delivered again after its success is not run again",
    "confirm_publish": "a submit returns when RabbitMQ has the job",
}
TOLD = note.told()
APP = Celery("bench", broker=TOLD.server["rabbitmq"], backend=f"{TOLD.server['redis']}/2")
APP.conf.update(
    task_default_queue=TOLD.queue,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    worker_soft_shutdown_timeout=TOLD.grace_s - note.MARGIN_S,
    worker_cancel_long_running_tasks_on_connection_loss=True,
    worker_deduplicate_successful_tasks=True,
    broker_heartbeat=10,
    broker_connection_retry_on_startup=True,
    broker_transport_options={"confirm_publish": True},
)
noop = APP.task(name="noop")(note.noop)


@APP.task(name="long", bind=True)
def long(task: Task, number: int, seconds: float) -> str:
    return note.long(number, seconds, f"{task.request.retries} of {task.max_retries} retries")


class Connection:
    def submit(self, number: int) -> None:
        noop.delay(number)

    def submit_long(self, number: int, seconds: float) -> None:
        long.apply_async((number, seconds), task_id=f"{TOLD.queue}-{number}")

    def answer(self, number: int) -> str | None:
        result = APP.AsyncResult(f"{TOLD.queue}-{number}")
        return result.result if result.successful() else None

    def close(self) -> None:
        APP.close()


def prepare() -> None:
    with APP.connection_for_write() as connection:
        connection.default_channel.queue_delete(TOLD.queue)


def connect() -> Connection:
    return Connection()


def workers(count: int) -> list[list[str]]:
    command = ["env", "REMAP_SIGTERM=SIGQUIT", str(TOLD.binaries / "celery"), "-A", "bench.peers.celery", "worker"]
    options = ["-l", "WARNING", "-P", "prefork", "-c", str(TOLD.slots)]
    return [[*command, *options, "-n", f"{os.getpid()}-{number}@%h"] for number in range(count)]
