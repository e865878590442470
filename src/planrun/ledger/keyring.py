"""The port of the access tokens, apart from that of the ledger: it is served to nobody."""

from __future__ import annotations

from typing import Protocol

from planrun.core.access import AccessToken


class Keyring(Protocol):
    """The access tokens of the HTTP API. For whoever has the ledger's file: nobody else is ever served these verbs.

    Raises (every method):
        LedgerUnavailable: No definite answer.
    """

    async def create(self, token: AccessToken) -> None:
        """Write a new one down, made now."""
        ...

    async def access_tokens(self) -> list[AccessToken]:
        """All that were ever made, oldest first, revoked and expired ones too."""
        ...

    async def revoke(self, token_id: str) -> bool:
        """Let nobody in with it any more; False: it was revoked before, or there is none."""
        ...

    async def see(self, token_id: str) -> None:
        """It was used just now."""
        ...

    async def close(self) -> None: ...
