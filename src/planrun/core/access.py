"""Who may ask for what over HTTP: scopes, namespaces, and the access tokens that stand for them.

A token's text is `pr_<id>_<secret>`. The id is public and finds the row; of the whole text only a digest is kept. The
secret has 256 bits of chance, so nobody can try them all, and one SHA-256 is enough: slow, salted hashes are for
secrets that people think up, and would cost every call a tenth of a second.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable
from enum import StrEnum

from planrun.core.messages import Struct

EVERY_NAMESPACE = "*"
_SHAPE = re.compile(r"pr_([0-9a-f]{8})_[0-9a-f]{64}")


class Scope(StrEnum):
    """What a call is part of: handing jobs in and asking about them, running them, or operating the whole."""

    SUBMIT = "submit"
    WORK = "work"
    OPERATE = "operate"


# Whoever operates sees, cancels and repeats jobs, too.
IMPLIED = {Scope.OPERATE: frozenset({Scope.SUBMIT})}


class AccessToken(Struct, kw_only=True):
    """An access token as it is kept: all but its text.

    Attributes:
        token_id: Its public part.
        digest: Of its whole text.
        name: Who has it.
        namespaces: Whose jobs it is for; `*`: everybody's.
        expires_at_ms: None: never.
        seen_at_ms: When it was last used, to some minutes.
        revoked_at_ms: None: it was not.
    """

    token_id: str
    digest: str
    name: str = ""
    scopes: tuple[Scope, ...]
    namespaces: tuple[str, ...]
    created_at_ms: int = 0
    expires_at_ms: int | None = None
    seen_at_ms: int | None = None
    revoked_at_ms: int | None = None

    def matches(self, text: str) -> bool:
        """Is this its text? The comparison takes equally long wherever they differ."""
        return hmac.compare_digest(self.digest, digest_of(text))


class Bearer(Struct, kw_only=True):
    """Who asks, as far as it matters.

    Attributes:
        name: For the log.
        namespaces: None: all.
    """

    name: str = ""
    scopes: frozenset[Scope] = frozenset(Scope)
    namespaces: frozenset[str] | None = None

    def may(self, scope: Scope) -> bool:
        """Is this scope among its own, or implied by one?"""
        return scope in self.scopes or any(scope in IMPLIED.get(own, ()) for own in self.scopes)

    def sees(self, namespace: str) -> bool:
        return self.namespaces is None or namespace in self.namespaces

    def sees_any(self, namespaces: Iterable[str]) -> bool:
        return any(map(self.sees, namespaces))


class Caller(Struct, kw_only=True):
    """What a server says of whoever asks, and of itself.

    Attributes:
        namespaces: None: all.
        version: Of the planrun there.
        wall_ms: Its clock, milliseconds since 1970.
    """

    name: str
    scopes: tuple[Scope, ...]
    namespaces: tuple[str, ...] | None
    version: str
    wall_ms: int


ANYBODY = Bearer()  # where no token is asked for


def bearer_of(token: AccessToken) -> Bearer:
    """Who comes with this token."""
    every = EVERY_NAMESPACE in token.namespaces
    return Bearer(
        name=token.name or token.token_id,
        scopes=frozenset(token.scopes),
        namespaces=None if every else frozenset(token.namespaces),
    )


def token_text(chance: str) -> str:
    """A new token, of 72 or more hex digits of chance."""
    return f"pr_{chance[:8]}_{chance[8:72]}"


def token_id_of(text: str) -> str | None:
    """The public part of a token; None: it is none."""
    found = _SHAPE.fullmatch(text)
    return None if found is None else found[1]


def digest_of(text: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(text.encode()).hexdigest()
