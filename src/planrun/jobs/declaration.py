"""`@job` and `@capability`: what a module offers. A bad declaration is an error at import."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from planrun.core.durations import read_span
from planrun.core.errors import Invalid
from planrun.core.kinds import GIB, MIB, Kind
from planrun.core.spelling import CAPABILITY_RULE, NAME_RULE, is_capability, is_name

F = TypeVar("F", bound=Callable[..., Any])

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(B|KiB|MiB|GiB|TiB)")
_UNITS = {"B": 1, "KiB": 1024, "MiB": MIB, "GiB": GIB, "TiB": 1024 * GIB}

_DEFAULTS = Kind(kind="", version="", module="")

# Filled while the modules of a job process are imported; lives and dies with that process.
_jobs: dict[tuple[str, str], tuple[Kind, Callable[..., Any]]] = {}
_probes: dict[str, Callable[[], object]] = {}


def job(
    kind: str,
    *,
    version: str = "v1",
    needs: Iterable[str] = (),
    resumable: str = "",
    warm: bool = False,
    max_runtime_s: float = _DEFAULTS.max_runtime_s,
    stall_s: float = _DEFAULTS.stall_s,
    output_bytes_max: int | str = _DEFAULTS.output_bytes_max,
    memory_bytes_max: int | str = _DEFAULTS.memory_bytes_max,
    log_bytes_max: int | str = _DEFAULTS.log_bytes_max,
    result_ttl: float | str = _DEFAULTS.result_ttl_s,
) -> Callable[[F], F]:
    """Declare that a function runs a kind of job. The function stays callable as it is.

    Args:
        kind: Name of the kind.
        version: Requests for one version are never answered by another.
        needs: Capabilities that a machine must have.
        resumable: Name of the checkpoint layout; empty: starts over after every interruption.
        warm: Reuse the process for the next job of this kind, for example to keep a model loaded.
        max_runtime_s: An attempt that runs longer is stopped.
        stall_s: An attempt without a sign of life for so long is stopped.
        output_bytes_max: What its scratch may hold, in bytes or as text such as "2GiB".
        memory_bytes_max: Resident memory of all its processes; 0: no limit.
        log_bytes_max: What is kept of its printed lines.
        result_ttl: How long its results are kept after the job ended, in seconds or as text such as "30d".

    Raises:
        Invalid: The declaration cannot be right; the text says why.
    """
    if callable(kind):
        raise Invalid(f'@job needs a name; write @job("{getattr(kind, "__name__", "name")}")')
    where = f"@job({kind!r})"
    declare = partial(
        Kind,
        kind=_name(kind, where, "kind"),
        version=_name(version, where, "version"),
        needs=tuple(_capability(need, where, "needs") for need in _names(needs, where)),
        resumable=_name(resumable, where, "resumable") if resumable else "",
        warm=bool(warm),
        max_runtime_s=_duration(max_runtime_s, where, "max_runtime_s"),
        stall_s=_duration(stall_s, where, "stall_s"),
        output_bytes_max=_size(output_bytes_max, where, "output_bytes_max", least=1),
        memory_bytes_max=_size(memory_bytes_max, where, "memory_bytes_max", least=0),
        log_bytes_max=_size(log_bytes_max, where, "log_bytes_max", least=1024),
        result_ttl_s=_span(result_ttl, where, "result_ttl"),
    )

    def register(function: F) -> F:
        if not callable(function) or inspect.isclass(function):
            raise Invalid(f"{where} must stand on a function")
        if not _takes_one(function):
            raise Invalid(f"{where}: {_place(function)} must take one argument, the JobContext")
        if (kind, version) in _jobs:
            first = _jobs[kind, version][1]
            raise Invalid(
                f"{where} version {version!r} is declared twice, "
                f"by {_place(first)} and {_place(function)}; rename one or give it another version"
            )
        _jobs[kind, version] = (declare(module=function.__module__), _synchronous(function))
        return function

    return register


def capability(name: str) -> Callable[[F], F]:
    """Mark a function that says whether this machine can do something.

    The function takes no arguments and returns True, False, or a text such as a version, which counts as
    True. It is asked once, when a worker starts.
    """
    where = f"@capability({name!r})"
    _capability(name, where, "name")

    def register(function: F) -> F:
        if name in _probes:
            raise Invalid(f"{where} is declared twice, by {_place(_probes[name])} and {_place(function)}; remove one")
        _probes[name] = function
        return function

    return register


def declared_kinds() -> tuple[Kind, ...]:
    """What the modules imported so far declare."""
    return tuple(kind for kind, _ in _jobs.values())


def declared_probes() -> dict[str, Callable[[], object]]:
    """The capability probes of the modules imported so far."""
    return dict(_probes)


def function_of(kind: str, version: str) -> Callable[..., Any] | None:
    """The function that runs a kind, if an imported module declares it."""
    found = _jobs.get((kind, version))
    return found[1] if found else None


def _synchronous(function: Callable[..., Any]) -> Callable[..., Any]:
    if not inspect.iscoroutinefunction(function):
        return function

    def run(context: Any) -> Any:
        import asyncio  # noqa: PLC0415 - it would make up a third of a job process's start

        return asyncio.run(function(context))

    return run


def _takes_one(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:  # no signature to be had, as of some functions in C
        return True
    return True


def _place(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def _names(given: Iterable[str], where: str) -> Iterable[str]:
    if isinstance(given, str):
        raise Invalid(f'{where}: needs is a list of names; write needs=["{given}"]')
    return given


def _name(given: str, where: str, what: str) -> str:
    if not isinstance(given, str) or not is_name(given):
        raise Invalid(f"{where}: {what} {given!r} is not a name; use {NAME_RULE}")
    return given


def _capability(given: str, where: str, what: str) -> str:
    if not isinstance(given, str) or not is_capability(given):
        raise Invalid(f"{where}: {what} {given!r} is not a name; use {CAPABILITY_RULE}")
    return given


def _duration(given: float, where: str, what: str) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given) or given <= 0:
        raise Invalid(f"{where}: {what} is {given!r}; use seconds above 0")
    return float(given)


def _span(given: float | str, where: str, what: str) -> float:
    if isinstance(given, str):
        read = read_span(given)
        if read is None:
            raise Invalid(f'{where}: {what} is {given!r}; use seconds, or text such as "90min", "12h" or "30d"')
        given = read
    return _duration(given, where, what)


def _size(given: int | str, where: str, what: str, *, least: int) -> int:
    size: int | None = None
    if isinstance(given, int) and not isinstance(given, bool):
        size = given
    elif isinstance(given, str) and (parts := _SIZE.fullmatch(given.strip())):
        size = int(float(parts[1]) * _UNITS[parts[2]])
    if size is None or size < least:
        raise Invalid(f'{where}: {what} is {given!r}; use bytes, at least {least}, or text such as "2GiB"')
    return size
