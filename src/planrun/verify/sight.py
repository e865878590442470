"""What a run sees of attempts that are about to store: for whoever wants to freeze a worker at that moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from planrun.client import AsyncClient
from planrun.core.errors import LedgerUnavailable, StorageError
from planrun.core.life import State
from planrun.core.names import attempt_prefix
from planrun.storage.contract import Store
from planrun.verify.story import Note, files_in, read_notes

ROWS_MAX = 100
LOOK_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class Target:
    """An attempt.

    Attributes:
        worker: Name of who runs it.
        prefix: Where it alone stores.
    """

    number: int
    attempt: int
    job_id: str
    token: int
    worker: str
    prefix: str


class Sight:
    """Looks into the ledger, the store, and what the jobs note themselves."""

    def __init__(self, client: AsyncClient, store: Store, namespace: str, done: Path) -> None:
        """
        Args:
            done: Where a job notes that its code has come to its end.
        """
        self._client = client
        self._store = store
        self._namespace = namespace
        self._done = done
        self.running: dict[tuple[int, int], Target] = {}

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Meanwhile `running` has the attempts that run, by number of the job and of the attempt."""
        watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.wait({watching})

    async def _watch(self) -> None:
        while True:
            with suppress(LedgerUnavailable):
                await self._look()
            await asyncio.sleep(LOOK_EVERY_S)

    async def _look(self) -> None:
        page = await self._client.list(namespace=self._namespace, state=State.RUNNING, limit=ROWS_MAX)
        for row in page.jobs:
            if row.token is not None and row.worker is not None:
                prefix = attempt_prefix(row.namespace, row.job_id, row.attempt, row.token)
                target = Target(row.params["number"], row.attempt, row.job_id, row.token, row.worker, prefix)
                self.running[target.number, target.attempt] = target

    def done(self) -> list[Note]:
        """Attempts whose code has come to its end, in that order."""
        return read_notes(self._done)

    async def stored(self, target: Target) -> int:
        """How many files it has stored, whole."""
        try:
            return await asyncio.to_thread(lambda: len(files_in(target.prefix, self._store.keys(target.prefix))))
        except StorageError:
            return 0

    async def holds(self, target: Target) -> bool:
        """Does the ledger say that the job is still that attempt's?

        Raises:
            LedgerUnavailable: It does not answer.
        """
        row = await self._client.show(target.job_id)
        return row.state is State.RUNNING and row.token == target.token
