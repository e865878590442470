"""What a caller may pass: one check for each sort of argument. Whatever is wrong is said, and nothing was done."""

from __future__ import annotations

from planrun.core.errors import Invalid
from planrun.core.requests import SECONDS_MAX, is_utf8, is_whole

WHOLE_MAX = 2**31 - 1


def check_text(what: str, given: object) -> None:
    """Text that can be stored and sent; empty, too.

    Raises:
        Invalid: It is none.
    """
    if not isinstance(given, str) or not is_utf8(given):
        raise Invalid(f"{what}: pass text, not {given!r:.80}")


def check_count(what: str, given: object) -> None:
    """A whole number, at least 1.

    Raises:
        Invalid: It is none.
    """
    if not is_whole(given) or not 1 <= given <= WHOLE_MAX:
        raise Invalid(f"{what} {given!r:.80}: use 1 or more")


def check_seconds(what: str, given: object) -> None:
    """A span of time.

    Raises:
        Invalid: It is none.
    """
    if not is_seconds(given):
        raise Invalid(f"{what} {given!r:.80}: use seconds, 0 or more")


def timeout_ms(timeout_s: float) -> int:
    """How long to try or to wait, in milliseconds.

    Raises:
        Invalid: Not so many seconds.
    """
    check_seconds("timeout_s", timeout_s)
    return int(timeout_s * 1000)


def is_seconds(number: object) -> bool:
    """0 or more, and not so far away that a date no longer holds it."""
    return isinstance(number, int | float) and not isinstance(number, bool) and 0 <= number < SECONDS_MAX
