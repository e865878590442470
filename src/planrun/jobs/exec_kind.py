"""Exec kinds: jobs that a program in any language does.

    from planrun.jobs import command

    command("encode", ["./encode", "--crf", "{params.crf}", "{inputs.video}"], version="v1", stall_s=120)

The job process runs the program as its child, in scratch. That is one more job function over `JobContext`:
limits, checkpoints, cancel and answers are those of every kind. `child` runs the program, `spoken`
understands what it says.

Source of the rules: docs/howto/any-language.md.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

from planrun.core.errors import Invalid, Permanent
from planrun.jobs.child import run_child
from planrun.jobs.context import JobContext
from planrun.jobs.declaration import job

_PLACEHOLDER = re.compile(r"\{(?:(inputs|params)\.([^{}]+)|(scratch|checkpoint|attempt|idempotency_hint|here))\}")
_LOOKS_LIKE_ONE = re.compile(r"\{[A-Za-z_]+\.[^{}]*\}")


class Declared(TypedDict, total=False):
    """What else is declared, as with `@job`."""

    version: str
    needs: Iterable[str]
    resumable: str
    max_runtime_s: float
    stall_s: float
    output_bytes_max: int | str
    memory_bytes_max: int | str
    log_bytes_max: int | str
    result_ttl: float | str


def command(kind: str, arguments: Sequence[str], **declared: Unpack[Declared]) -> None:
    """Declare that a program runs a kind of job. To be called by a module as it is imported. No shell is involved.

    In an argument, or as a part of one, `{inputs.NAME}`, `{params.NAME}`, `{scratch}`, `{checkpoint}` (empty
    if there is none), `{attempt}`, `{idempotency_hint}` and `{here}` (the folder of the declaring module) are
    replaced. Other braces stay.

    Args:
        kind: Name of the kind.
        arguments: The program and its arguments. A program with a slash in its name is looked for from the
            declaring module's folder, another one on PATH.
        declared: Version, needs and limits, as with `@job`.

    Raises:
        Invalid: The declaration cannot be right; the text says why.
    """
    module = sys._getframe(1).f_globals
    here = Path(module.get("__file__") or "module.py").absolute().parent
    where = f"command({kind!r})"
    line = _checked(arguments, where)
    line[0] = _program(line[0], here, where)

    def run(j: JobContext) -> Any:
        return run_child(j, [_filled(argument, j, here) for argument in line])

    run.__module__, run.__qualname__ = module["__name__"], where
    job(kind, **declared)(run)


def _checked(arguments: Sequence[str], where: str) -> list[str]:
    if isinstance(arguments, str) or not all(isinstance(argument, str) for argument in arguments):
        raise Invalid(f'{where}: the arguments are a list of texts; write ["./program", "--option", …]')
    if not arguments or not arguments[0]:
        raise Invalid(f'{where} names no program; write ["./program", …]')
    for found in (found for argument in arguments for found in _LOOKS_LIKE_ONE.findall(argument)):
        if not _PLACEHOLDER.fullmatch(found):
            raise Invalid(f"{where}: {found} is unknown; use {{inputs.NAME}} or {{params.NAME}}")
    return list(arguments)


def _program(name: str, here: Path, where: str) -> str:
    """A program that is named by its path has to be there: better said when the worker starts than job by job."""
    if "/" not in name or "{" in name:
        return name
    path = here / name
    if not path.is_file():
        raise Invalid(f"{where}: there is no program {path}; build it, or correct the path")
    if not os.access(path, os.X_OK):
        raise Invalid(f"{where}: {path} may not be run; say chmod +x {path}")
    return str(path)


def _filled(argument: str, j: JobContext, here: Path) -> str:
    def found(match: re.Match[str]) -> str:
        group, name, place = match.groups()
        if place:
            return str(here if place == "here" else getattr(j, place) or "")
        known: Mapping[str, Any] = j.inputs if group == "inputs" else j.params
        return _text(known[name])

    return _PLACEHOLDER.sub(found, argument)


def _text(value: Any) -> str:
    """Texts and paths as they are, everything else as JSON."""
    text = str(value) if isinstance(value, str | Path) else json.dumps(value)
    if "\0" in text:
        raise Permanent("a parameter with a NUL in it cannot be an argument; read it from inputs.json", code="argument")
    return text
