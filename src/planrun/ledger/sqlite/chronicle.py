"""The second port of the ledger over the same SQLite file."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from planrun.core.generations import History
from planrun.core.manifests import Closing, Manifest
from planrun.ledger.sqlite.ledger import SqliteLedger
from planrun.ledger.verbs import closing
from planrun.ledger.verbs import recovering as verbs


class SqliteChronicle(SqliteLedger):
    """A second view of an open ledger, with the same connections and the same writer. Never closed itself."""

    def __init__(self, ledger: SqliteLedger) -> None:
        self.__dict__ = ledger.__dict__

    async def history(self) -> History:
        return await self._read(verbs.history)

    async def be_strict(self) -> None:
        await self._write(verbs.be_strict)

    async def take_generation(self, generation: int, owner: str, *, seal_key: str, recovering: bool) -> None:
        taken = partial(verbs.take_generation, generation=generation, owner=owner, seal_key=seal_key)
        await self._write(partial(taken, recovering=recovering))

    async def end_recovery(self) -> None:
        await self._write(verbs.end_recovery)

    async def closing(self, *, limit: int, after: int = 0) -> Closing:
        return await self._read(partial(closing.closing, limit=limit, after=after))

    async def adopt(self, manifests: Sequence[Manifest]) -> int:
        return await self._write(partial(closing.adopt, manifests=manifests))

    async def unadopted(self, job_ids: Sequence[str]) -> list[str]:
        return await self._read(partial(closing.unadopted, job_ids=job_ids))
