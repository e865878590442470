"""Access tokens: kept without their text, revoked once, never gone."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from planrun.core.access import AccessToken, Scope, digest_of, token_text
from planrun.ledger.keyring import Keyring

from .manual_clock import ManualClock

ONE = token_text("0123456789abcdef" * 5)
OTHER = token_text("fedcba9876543210" * 5)


def a_token(text: str = ONE, **given: object) -> AccessToken:
    fields = {
        "token_id": text.split("_")[1],
        "digest": digest_of(text),
        "scopes": (Scope.WORK,),
        "namespaces": ("ads",),
    }
    return AccessToken(**{**fields, **given})  # type: ignore[arg-type]


@pytest.mark.anyio
class KeyringContract:
    @pytest.fixture
    async def keyring(self, clock: ManualClock) -> AsyncIterator[Keyring]:
        raise NotImplementedError("each backend opens its own")
        yield  # pragma: no cover

    async def test_what_was_made_is_listed_as_it_was_made_oldest_first(
        self, keyring: Keyring, clock: ManualClock
    ) -> None:
        began_ms = clock.wall_ms
        await keyring.create(a_token(OTHER, name="ann", expires_at_ms=began_ms + 5))
        clock.advance(1)
        await keyring.create(a_token(scopes=(Scope.SUBMIT, Scope.OPERATE), namespaces=("*",)))

        first, second = await keyring.access_tokens()

        assert (first.name, first.created_at_ms, first.expires_at_ms) == ("ann", began_ms, began_ms + 5)
        assert (second.scopes, second.namespaces) == ((Scope.SUBMIT, Scope.OPERATE), ("*",))
        assert (first.seen_at_ms, first.revoked_at_ms) == (None, None)
        assert first.matches(OTHER) and not first.matches(ONE)

    async def test_one_is_revoked_once_and_stays_in_the_list(self, keyring: Keyring, clock: ManualClock) -> None:
        made = a_token()
        await keyring.create(made)
        revoked_ms = clock.wall_ms

        assert await keyring.revoke(made.token_id)
        clock.advance(60)
        assert not await keyring.revoke(made.token_id)
        assert not await keyring.revoke("00000000")
        [row] = await keyring.access_tokens()
        assert row.revoked_at_ms == revoked_ms

    async def test_when_one_was_last_used_is_known(self, keyring: Keyring, clock: ManualClock) -> None:
        await keyring.create(a_token())
        await keyring.create(a_token(OTHER))
        clock.advance(60)
        await keyring.see(a_token().token_id)

        seen = {row.token_id: row.seen_at_ms for row in await keyring.access_tokens()}

        assert seen == {a_token().token_id: clock.wall_ms, a_token(OTHER).token_id: None}
