"""Whose call is it? Asked of the one secret that the environment may hold, and of the ledger's access tokens.

Tokens are read again after half a second at the latest, so that a revoked one opens nothing after a second.
"""

from __future__ import annotations

import asyncio
import hmac
import logging

from planrun.clock import Clock, SystemClock
from planrun.core.access import ANYBODY, AccessToken, Bearer, bearer_of, token_id_of
from planrun.core.durations import span
from planrun.core.errors import PlanrunError
from planrun.ledger.keyring import Keyring
from planrun.web.problems import NO_TOKEN, Refused

log = logging.getLogger(__name__)

FRESH_MS = 500  # how long what was read is believed
FRESH_UNKNOWN_SHARE = 0.1  # of it, for a token that is not there: it may have been made a moment ago
SEEN_EVERY_MS = 5 * 60_000


class Guard:
    """Knows whose token is whose."""

    def __init__(
        self,
        *,
        secret: str = "",
        keyring: Keyring | None = None,
        clock: Clock | None = None,
        fresh_ms: int = FRESH_MS,
    ) -> None:
        """
        Args:
            secret: Opens everything; empty: there is none.
            keyring: The tokens of the ledger; None: there are none.
            fresh_ms: How long what was read of them is believed.
        """
        self._secret = secret.encode()
        self._keyring = keyring
        self._clock = clock or SystemClock.open_system()
        self._fresh_ms = fresh_ms
        self._tokens: dict[str, AccessToken] = {}
        self._read_ms: int | None = None
        self._reading = asyncio.Lock()
        self._noted_ms: dict[str, int] = {}
        self._noting: set[asyncio.Task[None]] = set()

    async def asks(self) -> bool:
        """Must callers have a token? Once a ledger had one, always: revoking the last must not open the door.

        Raises:
            LedgerUnavailable: The tokens cannot be read.
        """
        return bool(self._secret or await self._known())

    async def bearer(self, authorization: str) -> Bearer:
        """Who sends this header.

        Raises:
            Refused: Nobody who is known; says what to do.
            LedgerUnavailable: The tokens cannot be read.
        """
        if not await self.asks():
            return ANYBODY
        scheme, _, text = authorization.partition(" ")
        text = text.strip()
        if scheme.lower() != "bearer":
            raise _refusal("send the header Authorization: Bearer TOKEN (planrun's own programs: set PLANRUN_TOKEN)")
        if self._secret and hmac.compare_digest(text.encode(), self._secret):
            return ANYBODY
        token_id = token_id_of(text)
        token = None if token_id is None else await self._token(token_id)
        if token is None or not token.matches(text):
            raise _refusal("this token is unknown here; compare it with what `planrun token create` has shown")
        now = self._clock.now()
        again = "; ask for a new one, made by `planrun token create`"
        if token.revoked_at_ms is not None:
            raise _refusal(
                f"the token {token.token_id} was revoked {span(now.wall_ms - token.revoked_at_ms)} ago{again}"
            )
        if token.expires_at_ms is not None and token.expires_at_ms <= now.wall_ms:
            raise _refusal(f"the token {token.token_id} expired {span(now.wall_ms - token.expires_at_ms)} ago{again}")
        self._note(token.token_id, now.boot_ms)
        return bearer_of(token)

    async def aclose(self) -> None:
        """Let go of the tokens."""
        await asyncio.gather(*self._noting)
        if self._keyring is not None:
            await self._keyring.close()

    async def _token(self, token_id: str) -> AccessToken | None:
        return (await self._known()).get(token_id) or (await self._known(FRESH_UNKNOWN_SHARE)).get(token_id)

    async def _known(self, share: float = 1) -> dict[str, AccessToken]:
        if self._keyring is not None and not self._is_fresh(share):
            async with self._reading:
                if not self._is_fresh(share):  # somebody else may have read meanwhile
                    now_ms = self._clock.boot_ms()
                    self._tokens = {token.token_id: token for token in await self._keyring.access_tokens()}
                    self._read_ms = now_ms
        return self._tokens

    def _is_fresh(self, share: float) -> bool:
        return self._read_ms is not None and self._clock.boot_ms() - self._read_ms < share * self._fresh_ms

    def _note(self, token_id: str, now_ms: int) -> None:
        """Write down that it was used: not at once, not often, and not in the caller's way."""
        if now_ms - self._noted_ms.get(token_id, -SEEN_EVERY_MS) >= SEEN_EVERY_MS:
            self._noted_ms[token_id] = now_ms
            task = asyncio.create_task(self._write_down(token_id))
            self._noting.add(task)
            task.add_done_callback(self._noting.discard)

    async def _write_down(self, token_id: str) -> None:
        assert self._keyring is not None
        try:
            await self._keyring.see(token_id)
        except PlanrunError as error:
            log.info("when token %s was last used is not written down: %s", token_id, error)


def _refusal(detail: str) -> Refused:
    return Refused(NO_TOKEN, detail, {"www-authenticate": 'Bearer realm="planrun"'})
