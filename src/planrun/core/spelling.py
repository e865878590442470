"""How things may be spelled. Needs nothing, because job processes check it too."""

from __future__ import annotations

import re
from functools import lru_cache

_CHARS_MAX = 128
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")

NAME_RULE = "letters, digits, '.', '_' and '-', at most 128, starting with a letter or digit"
CAPABILITY_RULE = f"{NAME_RULE}; with ':' between such names where one is of another's kind"


def is_name(text: str) -> bool:
    """May this be a namespace, kind, version, input or output name?"""
    return len(text) <= _CHARS_MAX and _matches(text)


def is_capability(text: str) -> bool:
    """May this be the name of a capability: `gpu`, `gpu:h100`?"""
    return all(is_name(part) for part in text.split(":"))


@lru_cache(maxsize=1024)  # the same few names, for every job of a bulk submit
def _matches(text: str) -> bool:
    return _NAME.fullmatch(text) is not None
