"""Dramatiq on RabbitMQ, results in Redis. One process with one thread, acknowledged when done; publisher confirms.

By default SIGTERM waits ten minutes for the job; here as long as it has, after which the job goes back to the broker.
"""

from __future__ import annotations

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.message import Message
from dramatiq.middleware import CurrentMessage
from dramatiq.results import ResultMissing, Results
from dramatiq.results.backends import RedisBackend

from bench.peers import note

SETTINGS = {
    "confirm_delivery=True": "a submit returns when RabbitMQ has the job",
    "heartbeat=10": "a frozen worker's connection ends after 10 to 20 s; by default after a minute or two",
    "store_results=True": "by default none is kept",
    "max_retries=10": "for failures; a job that is delivered again is not counted. By default 20",
    "dramatiq_queue_prefetch=1": "no job waits behind a long one of the same worker; by default two per thread",
    "time_limit=3_600_000": "by default a job is interrupted after ten minutes",
    "--worker-shutdown-timeout": "a job that outlasts the grace goes back to the broker; by default ten minutes",
}
TOLD = note.told()
QUEUE = TOLD.queue
BROKER = RabbitmqBroker(url=f"{TOLD.server['rabbitmq'].removesuffix('/')}?heartbeat=10", confirm_delivery=True)
RESULTS = RedisBackend(url=f"{TOLD.server['redis']}/3")
BROKER.add_middleware(CurrentMessage())
BROKER.add_middleware(Results(backend=RESULTS))
dramatiq.set_broker(BROKER)
noop = dramatiq.actor(queue_name=QUEUE, actor_name="noop")(note.noop)


@dramatiq.actor(queue_name=QUEUE, actor_name="long", max_retries=10, time_limit=3_600_000, store_results=True)
def long(number: int, seconds: float) -> str:
    message = CurrentMessage.get_current_message()
    return note.long(number, seconds, f"{message.options.get('retries', 0)} of 10 retries")


class Connection:
    def submit(self, number: int) -> None:
        noop.send(number)

    def submit_long(self, number: int, seconds: float) -> None:
        BROKER.enqueue(self._message(number, seconds))

    def answer(self, number: int) -> str | None:
        try:
            words: str = RESULTS.get_result(self._message(number))
        except ResultMissing:
            return None
        return words

    def _message(self, number: int, seconds: float = 0) -> Message[str]:
        """Named by its number, so that whoever asks for the result finds it."""
        return long.message(number, seconds).copy(message_id=f"{QUEUE}-{number}")

    def close(self) -> None:
        BROKER.close()


def prepare() -> None:
    for name in (QUEUE, f"{QUEUE}.DQ", f"{QUEUE}.XQ"):
        BROKER.channel.queue_delete(name)


def connect() -> Connection:
    return Connection()


def workers(count: int) -> list[list[str]]:
    command = [
        "env",
        "dramatiq_queue_prefetch=1",
        str(TOLD.binaries / "dramatiq"),
        "bench.peers.dramatiq",
        "--processes",
        "1",
    ]
    options = ["--threads", str(TOLD.slots), "--skip-logging"]
    stop_ms = int(1000 * (TOLD.grace_s - note.MARGIN_S))
    return [[*command, *options, "--worker-shutdown-timeout", str(stop_ms)]] * count
