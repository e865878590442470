"""The access tokens of a ledger, in the same file."""

from __future__ import annotations

from functools import partial

from planrun.core.access import AccessToken
from planrun.ledger.sqlite.ledger import SqliteLedger
from planrun.ledger.verbs import access


class SqliteKeyring(SqliteLedger):
    """The verbs of `Keyring`. Only whoever has the file has them: no port serves them to others."""

    async def create(self, token: AccessToken) -> None:
        await self._write(partial(access.create, token=token))

    async def access_tokens(self) -> list[AccessToken]:
        return await self._read(access.access_tokens)

    async def revoke(self, token_id: str) -> bool:
        return await self._write(partial(access.revoke, token_id=token_id))

    async def see(self, token_id: str) -> None:
        await self._write(partial(access.see, token_id=token_id))
