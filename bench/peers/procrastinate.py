"""Procrastinate on PostgreSQL, by psycopg. Slots are its concurrency.

By itself it never starts the job of a dead worker again: that takes a periodic task of the user's, here the documented
one. On SIGTERM it waits for the job; here as long as it has, after which the job is aborted, and tried again.
"""

from __future__ import annotations

from contextlib import suppress

from procrastinate import App, JobContext, PsycopgConnector
from procrastinate.exceptions import AlreadyEnqueued

from bench.peers import database
from bench.peers.note import MARGIN_S, STARTED, long_async, note, told

SETTINGS = {
    "retry_stalled": "without such a task of the user's, the job of a killed worker is never started again",
    "update_heartbeat_interval": "a worker beats each 3 s; by default each 10",
    "STALLED_S = 10": "after 10 s without a beat a worker counts as dead, and loses its jobs; by default 30",
    '"* * * * * */2"': "that task looks each 2 s",
    "retry=10": "without it, a job that a shutdown aborts is not tried again",
    "--shutdown-graceful-timeout": "a job that outlasts the grace is aborted, and tried again; by default it waits",
    "queueing_lock=str(number)": "no second job of that name waits in the queue; one may run beside it",
}
TOLD = told()
STALLED_S = 10
APP = App(
    connector=PsycopgConnector(conninfo=database.address(TOLD, TOLD.queue)),
    worker_defaults={"update_heartbeat_interval": 3, "stalled_worker_timeout": STALLED_S},
)


@APP.task(name="noop")
async def noop(number: int) -> None:
    note(STARTED, number)


@APP.task(name="long", retry=10)
async def long(number: int, seconds: float) -> None:
    await long_async(number, seconds)


@APP.periodic(cron="* * * * * */2")
@APP.task(name="retry_stalled", queueing_lock="retry_stalled", pass_context=True)
async def retry_stalled(context: JobContext, timestamp: int) -> None:
    for job in await APP.job_manager.get_stalled_jobs(seconds_since_heartbeat=STALLED_S):
        await APP.job_manager.retry_job(job)


class Connection:
    def submit(self, number: int) -> None:
        noop.defer(number=number)

    def submit_many(self, numbers: list[int]) -> None:
        noop.batch_defer(*({"number": number} for number in numbers))

    def submit_long(self, number: int, seconds: float) -> None:
        with suppress(AlreadyEnqueued):
            long.configure(queueing_lock=str(number)).defer(number=number, seconds=seconds)

    async def spent(self, number: int) -> str:
        async with APP.open_async():
            jobs = await APP.job_manager.list_jobs_async(queueing_lock=str(number))
        return ", ".join(f"{job.attempts} of 10 attempts" for job in jobs)

    def close(self) -> None:
        APP.close()


def prepare() -> None:
    database.make_anew(TOLD, TOLD.queue)
    with APP.open():
        APP.schema_manager.apply_schema()


def connect() -> Connection:
    APP.open()
    return Connection()


def workers(count: int) -> list[list[str]]:
    command = [str(TOLD.binaries / "procrastinate"), "--app", "bench.peers.procrastinate.APP", "worker"]
    stop = ["--shutdown-graceful-timeout", str(TOLD.grace_s - MARGIN_S)]
    return [[*command, "--concurrency", str(TOLD.slots), *stop]] * count
