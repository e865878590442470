"""What jobs print, as it is read."""

from __future__ import annotations

from planrun.core.messages import Struct


class LogPiece(Struct, kw_only=True):
    """Bytes that one attempt printed.

    Attributes:
        end: Where the next piece begins, counted in bytes.
    """

    attempt: int
    data: bytes
    end: int
