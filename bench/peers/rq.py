"""RQ on Redis. A process per job is its default, here with its worker for hosts that kill soon; warm is `SimpleWorker`.

By itself it starts nothing again: `Retry`, and a look at dead workers' jobs each 5 s instead of 600. On SIGTERM its
default worker waits for the job, however long; this one ends the job after 6 s, and it is tried again.
"""

from __future__ import annotations

from contextlib import suppress

from redis import Redis
from rq import Queue, Retry
from rq.exceptions import DuplicateJobError
from rq.job import Job

from bench.peers import note

SETTINGS = {
    "Retry(max=10)": "without it, the job of a killed worker is not started again",
    "job_timeout=3600": "by default a job is killed after three minutes",
    '"--maintenance-interval", "5"': "a look at dead workers' jobs each 5 s instead of 600",
    '"--job-monitoring-interval", "5"': "a job's sign of life each 5 s instead of 30: it counts for 60 s longer",
    '"--worker-ttl", "20"': "an idle worker looks up each 5 s instead of 405",
    '"rq.worker.HerokuWorker"': "6 s after SIGTERM the job ends, and uses up a retry; by default it runs on",
    "unique=True": "a second submit with the id of a known job is refused",
}
TOLD = note.told()
URL = f"{TOLD.server['redis']}/1"
QUEUE = Queue(TOLD.queue, connection=Redis.from_url(URL))


class Connection:
    def submit(self, number: int) -> None:
        QUEUE.enqueue(note.noop, number)

    def submit_many(self, numbers: list[int]) -> None:
        QUEUE.enqueue_many([Queue.prepare_data(note.noop, (number,)) for number in numbers])

    def submit_long(self, number: int, seconds: float) -> None:
        with suppress(DuplicateJobError):
            QUEUE.enqueue(
                note.long,
                number,
                seconds,
                job_id=f"{TOLD.queue}-{number}",
                unique=True,
                job_timeout=3600,
                retry=Retry(max=10),
            )

    def answer(self, number: int) -> str | None:
        result: str | None = self._job(number).return_value()
        return result

    def spent(self, number: int) -> str:
        return f"{10 - (self._job(number).retries_left or 0)} of 10 retries"

    def _job(self, number: int) -> Job:
        return Job.fetch(f"{TOLD.queue}-{number}", connection=QUEUE.connection)

    def close(self) -> None:
        QUEUE.connection.close()


def prepare() -> None:
    """The queue's name is new."""


def connect() -> Connection:
    return Connection()


def workers(count: int) -> list[list[str]]:
    command = [str(TOLD.binaries / "rq"), "worker", TOLD.queue, "--url", URL, "-q"]
    alive = ["--maintenance-interval", "5", "--job-monitoring-interval", "5", "--worker-ttl", "20"]
    kind = "rq.worker.HerokuWorker" if TOLD.fresh else "rq.SimpleWorker"
    return [[*command, *alive, "--worker-class", kind]] * count
