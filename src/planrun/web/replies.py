"""Bodies as JSON, every field present."""

from __future__ import annotations

import json
from collections.abc import Mapping

from starlette.responses import Response

from planrun.core.messages import Struct
from planrun.core.plain import plain


def json_text(body: Struct) -> str:
    """Strict JSON in one line."""
    return json.dumps(plain(body), allow_nan=False, separators=(",", ":"))


def write_json(
    body: Struct,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    media_type: str = "application/json",
) -> Response:
    """A struct as a response."""
    return Response(f"{json_text(body)}\n", status_code=status, headers=headers, media_type=media_type)
