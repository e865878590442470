"""Procrastinate on PostgreSQL, by psycopg. Slots are its concurrency.

By itself it never starts the job of a dead worker again: that takes a periodic task of the user's, here the documented
one, each 10 s, with a heartbeat of 12 s (its workers beat each 10 s). On SIGTERM it waits for the job.
"""

from __future__ import annotations

import asyncio

from procrastinate import App, JobContext, PsycopgConnector

from bench.peers import database
from bench.peers.note import ENDED, LONG, STARTED, note, told

TOLD = told()
STALLED_S = 12
APP = App(connector=PsycopgConnector(conninfo=database.address(TOLD, "procrastinate")))


@APP.task(name="noop")
async def noop(number: int) -> None:
    note(STARTED, number)


@APP.task(name="sleep")
async def sleep(seconds: float) -> None:
    note(STARTED, LONG)
    await asyncio.sleep(seconds)
    note(ENDED, LONG)


@APP.periodic(cron="* * * * * */10")
@APP.task(name="retry_stalled", queueing_lock="retry_stalled", pass_context=True)
async def retry_stalled(context: JobContext, timestamp: int) -> None:
    for job in await APP.job_manager.get_stalled_jobs(seconds_since_heartbeat=STALLED_S):
        await APP.job_manager.retry_job(job)


class Connection:
    def submit(self, number: int) -> None:
        noop.defer(number=number)

    def submit_many(self, numbers: list[int]) -> None:
        noop.batch_defer(*({"number": number} for number in numbers))

    def submit_long(self, seconds: float) -> None:
        sleep.defer(seconds=seconds)

    def close(self) -> None:
        APP.close()


def prepare() -> None:
    database.make_anew(TOLD, "procrastinate")
    with APP.open():
        APP.schema_manager.apply_schema()


def connect() -> Connection:
    APP.open()
    return Connection()


def workers(count: int) -> list[list[str]]:
    command = [str(TOLD.binaries / "procrastinate"), "--app", "bench.peers.procrastinate.APP", "worker"]
    return [[*command, "--concurrency", str(TOLD.slots)]] * count
