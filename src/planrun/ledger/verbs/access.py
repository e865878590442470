"""Access tokens: made, listed, revoked. None is ever deleted, so that a ledger that once asked for one always does."""

from __future__ import annotations

from planrun.core.access import AccessToken, Scope
from planrun.ledger.tx import Tx, dump, load


def create(tx: Tx, token: AccessToken) -> None:
    """Write a new one down."""
    tx.rows(
        "insert_access_token",
        token_id=token.token_id,
        digest=token.digest,
        name=token.name,
        scopes=dump(token.scopes),
        namespaces=dump(token.namespaces),
        expires_at_ms=token.expires_at_ms,
        wall_ms=tx.now.wall_ms,
    )


def access_tokens(tx: Tx) -> list[AccessToken]:
    """All that were ever made, oldest first."""
    return [
        AccessToken(
            **{
                **row,
                "scopes": load(row["scopes"], tuple[Scope, ...]),
                "namespaces": load(row["namespaces"], tuple[str, ...]),
            }
        )
        for row in tx.rows("access_tokens")
    ]


def revoke(tx: Tx, token_id: str) -> bool:
    """Let nobody in with it any more; False: it was revoked before, or there is none."""
    return bool(tx.rows("revoke_access_token", token_id=token_id, wall_ms=tx.now.wall_ms))


def see(tx: Tx, token_id: str) -> None:
    """It was used just now."""
    tx.rows("see_access_token", token_id=token_id, wall_ms=tx.now.wall_ms)
