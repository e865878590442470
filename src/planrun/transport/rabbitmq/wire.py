"""What a message says of itself: its kind and version in a header, its content as JSON.

A version is for ever: it gains optional fields, and whoever does not know them leaves them alone. What means something
else gets the next number, and both are read until no sender of the old one is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from planrun.core.flows import Marker, Notice
from planrun.core.messages import RenewRequest, Result, Struct
from planrun.core.offers import Offer


class AnswerBody(Struct, kw_only=True):
    """The answer of a job, as its subscribers get it.

    Attributes:
        msg_id: The same at every repetition, and of this subscriber alone.
        public_names: Where copies of its outputs stand.
    """

    msg_id: str
    result: Result
    public_names: tuple[str, ...] = ()


HEADER = "planrun-message"
CONTENT_TYPE = "application/json"
ANSWER = "answer/1"  # written once, by the ledger: it is sent byte for byte
READ: Mapping[str, type[Struct]] = {
    "offer/1": Offer,
    "beat/1": RenewRequest,
    "marker/1": Marker,
    "notice/1": Notice,
}
SENT: Mapping[str, type[Struct]] = {**READ, ANSWER: AnswerBody}
_NAMES = {kind: name for name, kind in READ.items()}


class Unreadable(ValueError):
    """Not a message that is known here. Its text says what is wrong with it."""


def name_of(message: Struct) -> str:
    """Kind and version, as the header has them."""
    return _NAMES[type(message)]


def read(headers: Mapping[str, Any] | None, body: bytes, *kinds: type[Struct]) -> Struct:
    """One message of the kinds that belong here.

    Raises:
        Unreadable: It is of no version that is known, or of another kind, or garbage.
    """
    name = (headers or {}).get(HEADER)
    kind = READ.get(name) if isinstance(name, str) else None
    if kind is None or kind not in kinds:
        known = ", ".join(_NAMES[each] for each in kinds)
        raise Unreadable(f"its header {HEADER} is {name!r:.60}, known here: {known}")
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable(f"{name}: {error}") from None
