"""Messages as plain data for a reader who knows no defaults: every field is present."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import msgspec


def plain(value: Any) -> Any:
    """Structs as dicts with all their fields, all the way down; tuples as lists, bytes in base64."""
    if isinstance(value, msgspec.Struct):
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
