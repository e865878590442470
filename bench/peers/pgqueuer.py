"""pgqueuer on PostgreSQL, by asyncpg. Slots are its batch size; the library's own is 10.

A worker's death is found by the heartbeat: 2 s here instead of 30, and 1 s instead of 30 between two looks.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from bench.peers import database
from bench.peers.note import ENDED, LONG, STARTED, note, told

TOLD = told()
ADDRESS = database.address(TOLD, "pgqueuer")


@asynccontextmanager
async def main() -> AsyncIterator[PgQueuer]:
    """What `pgq run` runs."""
    connection = await asyncpg.connect(ADDRESS)
    queue = PgQueuer(AsyncpgDriver(connection))

    @queue.entrypoint("noop")
    async def noop(job: Job) -> None:
        note(STARTED, int(job.payload))

    @queue.entrypoint("sleep")
    async def sleep(job: Job) -> None:
        note(STARTED, LONG)
        await asyncio.sleep(json.loads(job.payload))
        note(ENDED, LONG)

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

    async def submit_long(self, seconds: float) -> None:
        await self._queries.enqueue("sleep", json.dumps(seconds).encode())

    async def close(self) -> None:
        await self._connection.close()


def prepare() -> None:
    database.make_anew(TOLD, "pgqueuer")
    subprocess.run([str(TOLD.binaries / "pgq"), "--pg-dsn", ADDRESS, "install"], check=True, capture_output=True)


async def connect() -> Connection:
    return Connection(await asyncpg.connect(ADDRESS))


def workers(count: int) -> list[list[str]]:
    command = [str(TOLD.binaries / "pgq"), "--pg-dsn", ADDRESS, "run", "bench.peers.pgqueuer:main"]
    options = ["--batch-size", str(TOLD.slots), "--heartbeat-timeout", "2", "--dequeue-timeout", "1"]
    return [[*command, *options]] * count
