"""What a job returned, checked in its own process: files to keep and a JSON value, or a clear refusal."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from planrun.core.errors import Invalid, Permanent
from planrun.core.spelling import NAME_RULE, is_name
from planrun.core.values import check_json

WHAT = "the job's answer"


@dataclass(frozen=True, slots=True)
class Answer:
    """Attributes:
    outputs: Output name → absolute path of a file inside scratch.
    value: As strict JSON.
    """

    outputs: dict[str, str] = field(default_factory=dict)
    value: str = "null"


def answer_of(returned: Any, *, scratch: Path, value_bytes_max: int) -> Answer:
    """Split a return value into files and values.

    Raises:
        Permanent: It cannot be an answer. Names the offending part, in one line.
    """
    if isinstance(returned, Path):
        returned = {"result": returned}
    if not isinstance(returned, dict):
        return Answer({}, _json(returned, scratch, value_bytes_max))
    files = {name: found for name, found in returned.items() if isinstance(found, Path)}
    values = {name: found for name, found in returned.items() if not isinstance(found, Path)}
    outputs = {name: _file_to_keep(name, path, scratch) for name, path in files.items()}
    if outputs and not values:
        return Answer(outputs)
    return Answer(outputs, _json(values, scratch, value_bytes_max))


def _json(value: Any, scratch: Path, bytes_max: int) -> str:
    try:
        text = check_json(value, bytes_max=bytes_max, what=WHAT)
    except Invalid as refusal:
        raise Permanent(str(refusal), code="bad-answer") from None
    _refuse_lost_file(value, scratch)
    return text


def _refuse_lost_file(value: Any, scratch: Path) -> None:
    """A file in scratch that is named by text only would be gone, and whoever reads the answer misled."""
    match value:
        case str() if value.startswith(f"{scratch}{os.sep}") and os.path.exists(value):  # noqa: PTH110 - any text
            raise Permanent(
                f"{WHAT}: the text {value} names a file that will be gone; return a Path to keep it", code="bad-answer"
            )
        case dict():
            for member in value.values():
                _refuse_lost_file(member, scratch)
        case list():
            for member in value:
                _refuse_lost_file(member, scratch)


def _file_to_keep(name: Any, path: Path, scratch: Path) -> str:
    if not isinstance(name, str) or not is_name(name):
        raise Permanent(f"{WHAT}: output name {name!r} is not a name; use {NAME_RULE}", code="bad-answer")
    absolute = scratch / path
    try:
        real = absolute.resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        raise Permanent(f"{WHAT}: output {name!r} is {path}, but there is no such file", code="bad-answer") from None
    if not real.is_relative_to(scratch.resolve()):
        leads = f", which leads to {real}" if absolute.is_relative_to(scratch) else ""
        raise Permanent(f"{WHAT}: output {name!r} is {path}{leads}, outside scratch; write it there", code="bad-answer")
    if not real.is_file():
        raise Permanent(
            f"{WHAT}: output {name!r} is {path}, not a file; return files, or pack the folder", code="bad-answer"
        )
    return str(real)
