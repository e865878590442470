"""What an exception of job code means, in one line. Job code may be hostile to being described."""

from __future__ import annotations

import errno
import re
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass

from planrun.core.errors import Fatal, JobError, Permanent
from planrun.core.life import Outcome
from planrun.core.spelling import is_name

MESSAGE_LENGTH_MAX = 2000
_HERE = __file__.removesuffix("failure.py")


@dataclass(frozen=True, slots=True)
class Described:
    """An exception as the worker hears of it."""

    outcome: Outcome
    message: str
    code: str


def describe_failure(error: BaseException) -> Described:
    """Classify an exception: Permanent and Fatal say so themselves, everything else is a bad moment."""
    kind = type(error)
    text = one_line(error)
    if issubclass(kind, Permanent):
        return Described(Outcome.PERMANENT, text or kind.__name__, _code(error))
    if issubclass(kind, Fatal):
        return Described(Outcome.FATAL, text or kind.__name__, _code(error))
    if issubclass(kind, SystemExit):
        return Described(Outcome.TRANSIENT, f"the job exited with {text}", "exit")
    if issubclass(kind, MemoryError):
        return Described(Outcome.TRANSIENT, _named(kind, text or "out of memory"), "out-of-memory")
    if issubclass(kind, OSError) and getattr(error, "errno", 0) in (errno.ENOSPC, errno.EDQUOT):
        return Described(Outcome.TRANSIENT, _named(kind, text), "disk-full")
    if issubclass(kind, JobError):
        return Described(Outcome.TRANSIENT, text or kind.__name__, _code(error))
    return Described(Outcome.TRANSIENT, _named(kind, text), slug(kind.__name__))


def describe_import(error: BaseException, module: str) -> Described:
    """A module that cannot be imported here; another worker may have it right."""
    kind = type(error)
    place = _place_of(error)
    text = _named(kind, error.msg if isinstance(error, SyntaxError) else one_line(error))
    return Described(Outcome.TRANSIENT, f"cannot import {module}{f' ({place})' if place else ''}: {text}", "import")


def one_line(error: BaseException) -> str:
    """The text of an exception, printable and on one line, even if it refuses to be shown."""
    try:
        text = str(error)
        if not isinstance(text, str):
            raise TypeError
    except BaseException:
        return "(its text cannot be shown)"
    line = " ".join(text.encode(errors="backslashreplace").decode().split())
    return line if len(line) <= MESSAGE_LENGTH_MAX else f"{line[:MESSAGE_LENGTH_MAX]}…"


def write_traceback(error: BaseException) -> None:
    """The story goes to the job's log, from where it enters the tenant's code.

    A verdict that no code of the job raised has no story beyond its text.
    """
    with suppress(BaseException):
        trace = error.__traceback__
        while trace is not None and _is_ours(trace.tb_frame.f_code.co_filename):
            trace = trace.tb_next
        if trace is None and isinstance(error, JobError):
            return
        traceback.print_exception(type(error), error, trace or error.__traceback__)
    with suppress(BaseException):
        sys.stderr.flush()


def slug(name: str) -> str:
    """`ValueError` → `value-error`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^A-Za-z0-9]+", "-", name).strip("-").lower()


def _named(kind: type[BaseException], text: str) -> str:
    return f"{kind.__name__}: {text}" if text else kind.__name__


def _code(error: BaseException) -> str:
    with suppress(BaseException):
        code = getattr(error, "code", "")
        if isinstance(code, str) and is_name(code):
            return code
    return slug(type(error).__name__)


def _is_ours(filename: str) -> bool:
    """The way to the tenant's code, which tells its author nothing."""
    return "importlib" in filename or filename.startswith(_HERE)


def _place_of(error: BaseException) -> str:
    """File and line in the tenant's code, as far as known."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    with suppress(BaseException):
        for frame in reversed(traceback.extract_tb(error.__traceback__)):
            if not _is_ours(frame.filename):
                return f"{frame.filename}:{frame.lineno}"
    return ""
