"""RQ on Redis. A process per job is its default; warm is `SimpleWorker`.

By itself it starts nothing again: `Retry`, and a look at dead workers' jobs each 5 s instead of 600, with a worker's
sign of life counting for 20 s instead of 420. On SIGTERM it waits for the job.
"""

from __future__ import annotations

from redis import Redis
from rq import Queue, Retry

from bench.peers import note

TOLD = note.told()
URL = f"{TOLD.server['redis']}/1"
QUEUE = Queue("bench", connection=Redis.from_url(URL))


class Connection:
    def submit(self, number: int) -> None:
        QUEUE.enqueue(note.noop, number)

    def submit_many(self, numbers: list[int]) -> None:
        QUEUE.enqueue_many([Queue.prepare_data(note.noop, (number,)) for number in numbers])

    def submit_long(self, seconds: float) -> None:
        QUEUE.enqueue(note.sleep, seconds, job_timeout=600, retry=Retry(max=3))

    def close(self) -> None:
        QUEUE.connection.close()


def prepare() -> None:
    QUEUE.connection.flushdb()


def connect() -> Connection:
    return Connection()


def workers(count: int) -> list[list[str]]:
    command = [str(TOLD.binaries / "rq"), "worker", "bench", "--url", URL, "-q"]
    alive = ["--maintenance-interval", "5", "--job-monitoring-interval", "5", "--worker-ttl", "20"]
    process = [] if TOLD.fresh else ["--worker-class", "rq.SimpleWorker"]
    return [[*command, *alive, *process]] * count
