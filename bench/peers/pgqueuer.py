"""pgqueuer on PostgreSQL, by asyncpg. Slots are its batch size; the library's own is 10.

A worker's death is found by the heartbeat: 2 s here instead of 30, and 1 s instead of 30 between two looks. On SIGTERM
it waits for the job.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.domain.errors import DuplicateJobError
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from bench.peers import database
from bench.peers.note import STARTED, long_async, note, told

SETTINGS = {
    '"--heartbeat-timeout", "2"': "a worker without a beat for 2 s loses its jobs; by default 30",
    '"--dequeue-timeout", "1"': "a look for such jobs each second; by default each 30",
    '"--batch-size", str(TOLD.slots)': "no job waits behind a long one of the same worker",
    "dedupe_key=str(number)": "no second job of that name waits or runs; it is free again when the job has ended",
}
TOLD = told()
ADDRESS = database.address(TOLD, TOLD.queue)


@asynccontextmanager
async def main() -> AsyncIterator[PgQueuer]:
    """What `pgq run` runs."""
    connection = await asyncpg.connect(ADDRESS)
    queue = PgQueuer(AsyncpgDriver(connection))

    @queue.entrypoint("noop")
    async def noop(job: Job) -> None:
        note(STARTED, int(job.payload))

    @queue.entrypoint("long")
    async def long(job: Job) -> None:
        number, seconds = json.loads(job.payload)
        await long_async(number, seconds, f"{job.attempts} attempts")

    yield queue
    await connection.close()


class Connection:
    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection
        self._queries = Queries(AsyncpgDriver(connection))

    async def submit(self, number: int) -> None:
        await self._queries.enqueue("noop", str(number).encode())

    async def submit_many(self, numbers: list[int]) -> None:
        payloads: list[bytes | None] = [str(number).encode() for number in numbers]
        await self._queries.enqueue(["noop"] * len(numbers), payloads, [0] * len(numbers))

    async def submit_long(self, number: int, seconds: float) -> None:
        with suppress(DuplicateJobError):
            await self._queries.enqueue("long", json.dumps([number, seconds]).encode(), dedupe_key=str(number))

    async def close(self) -> None:
        await self._connection.close()


def prepare() -> None:
    database.make_anew(TOLD, TOLD.queue)
    subprocess.run([str(TOLD.binaries / "pgq"), "--pg-dsn", ADDRESS, "install"], check=True, capture_output=True)


async def connect() -> Connection:
    return Connection(await asyncpg.connect(ADDRESS))


def workers(count: int) -> list[list[str]]:
    command = [str(TOLD.binaries / "pgq"), "--pg-dsn", ADDRESS, "run", "bench.peers.pgqueuer:main"]
    options = ["--batch-size", str(TOLD.slots), "--heartbeat-timeout", "2", "--dequeue-timeout", "1"]
    return [[*command, *options]] * count
