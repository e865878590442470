"""Which values may cross: those that arrive equal on the other side, and no others.

A value that JSON would change (a tuple, a number as a key) or could not carry (NaN, bytes, a date) is
refused with its path, before anything is done with it.
"""

from __future__ import annotations

import json
import math
from typing import Any

from planrun.core.errors import Invalid

DEPTH_MAX = 100
_STRICT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_INTEGER_BITS_MAX = 13_000  # about 3 900 digits: what every decoder on the way reads back


def check_json(value: Any, *, bytes_max: int, what: str) -> str:
    """Write a value as JSON, if it arrives equal.

    Args:
        bytes_max: Longest encoded form, bytes of UTF-8.
        what: What the value is called in the error, such as `params`.

    Returns:
        Strict JSON: no NaN, no lone surrogates.

    Raises:
        Invalid: In one line, with the path of the offending value and what to do.
    """
    too_long = f"{what} is larger than {bytes_max} bytes of JSON; return or pass a file instead"
    _check(value, what, (), _Room(bytes_max, too_long))
    text = _STRICT.encode(value)
    if len(text.encode()) > bytes_max:
        raise Invalid(too_long)
    return text


class _Room:
    """Counts down a lower bound of the encoded size, so that a huge or shared structure is refused early."""

    def __init__(self, left: int, refusal: str) -> None:
        self.left = left
        self.refusal = refusal

    def take(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise Invalid(self.refusal)


def _check(value: Any, path: str, inside: tuple[int, ...], room: _Room) -> None:
    room.take(1)
    match value:
        case None | bool():
            return
        case str():
            _check_text(value, path, room)
        case int():
            if value.bit_length() > _INTEGER_BITS_MAX:
                raise Invalid(f"{_shown(path)}: an integer of more than 3 900 digits; write it as text")
        case float():
            if not math.isfinite(value):
                raise Invalid(f"{_shown(path)}: {value} is not JSON; use None or text")
        case dict() | list():
            if id(value) in inside:
                raise Invalid(f"{_shown(path)}: contains itself")
            if len(inside) >= DEPTH_MAX:
                raise Invalid(f"{_shown(path)}: nested deeper than {DEPTH_MAX} levels")
            _check_members(value, path, (*inside, id(value)), room)
        case _:
            raise Invalid(f"{_shown(path)}: {type(value).__name__} is not JSON; {_advice(value)}")


def _check_members(value: dict[Any, Any] | list[Any], path: str, inside: tuple[int, ...], room: _Room) -> None:
    if isinstance(value, list):
        for index, member in enumerate(value):
            _check(member, f"{path}[{index}]", inside, room)
        return
    for key, member in value.items():
        if not isinstance(key, str):
            raise Invalid(f"{_shown(path)}: a key of type {type(key).__name__} would arrive as text; use text keys")
        _check_text(key, f"{path}, a key", room)
        _check(member, f"{path}.{key}", inside, room)


def _check_text(text: str, path: str, room: _Room) -> None:
    room.take(len(text))
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Invalid(f"{_shown(path)}: text with a lone surrogate cannot be written as UTF-8") from None


def _shown(path: str) -> str:
    """The path in one printable line, its middle left out if it is long."""
    line = ascii(path)[1:-1] if not path.isprintable() else path
    return line if len(line) <= 200 else f"{line[:100]}…{line[-100:]}"


def _advice(value: Any) -> str:
    if isinstance(value, tuple | set | frozenset):
        return "use a list"
    if isinstance(value, bytes | bytearray | memoryview):
        return "write the bytes to a file, or encode them as text"
    return "use text, numbers, lists and dicts with text keys"
