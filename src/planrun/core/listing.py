"""Which jobs a listing shows."""

from __future__ import annotations

from planrun.core.life import State
from planrun.core.messages import Struct


class ListQuery(Struct, kw_only=True):
    """Newest first; None: any.

    Attributes:
        namespaces: Of any of these.
        since_ms: Created then or later, wall clock.
        before: The cursor of the page before.
    """

    namespace: str | None = None
    namespaces: tuple[str, ...] | None = None
    kind: str | None = None
    version: str | None = None
    state: State | None = None
    key: str | None = None
    since_ms: int | None = None
    limit: int = 50
    before: int | None = None
