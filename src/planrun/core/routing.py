"""Could any worker of the known fleet ever run this job?

A worker counts from its registration until it is retired (`gone`) or has not been seen for an hour:
one that drains, is broken or reboots still shows what the fleet can do. All that a job asks for
must come from *one* worker, or one class of machines that an operator has declared. A fleet of which nobody was
seen lately knows nothing: the job waits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from planrun.core.machines import MachineClass
from planrun.core.messages import Handler, WorkerRow

CAPABILITY_TTL_MS = 3_600_000
WARM_AFTER_MS = 120_000  # so long after its start an orchestrator lets workers register before it says that none can


@dataclass(frozen=True, slots=True)
class Offered:
    """Attributes:
    incarnations: The workers that could run it, and the declared classes, as `class NAME`.
    """

    incarnations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Missing:
    """No worker could run it.

    Attributes:
        what: What is lacking: names of capabilities, a kind, a version or a namespace.
        sentence: The same for people, naming what exists instead.
    """

    what: tuple[str, ...]
    sentence: str


@dataclass(frozen=True, slots=True)
class Cold:
    """No worker was seen lately, so nothing can be said."""


def find_route(
    workers: Iterable[WorkerRow],
    *,
    namespace: str,
    kind: str,
    version: str,
    needs: Collection[str] = (),
    now_ms: int,
    declared: Iterable[MachineClass] = (),
    ttl_ms: int = CAPABILITY_TTL_MS,
) -> Offered | Missing | Cold:
    """Decide who could run a job, or what the fleet lacks.

    Args:
        needs: What this job asks for beside the needs of its kind.
        now_ms: By the clock of `WorkerRow.seen_at_ms`, milliseconds.
        declared: What an operator says that the fleet can do: it counts whether or not such a machine is up.
        ttl_ms: How long a worker counts after it was last seen, milliseconds.
    """
    known = [worker for worker in workers if worker.state != "gone" and now_ms - worker.seen_at_ms < ttl_ms]
    if not known:
        return Cold()
    known += [each.as_worker(now_ms) for each in declared]
    serving = [worker for worker in known if namespace in worker.namespaces]
    if not serving:
        return Missing((namespace,), f"no worker serves namespace {namespace}: start one with --namespace {namespace}")
    lacks = {
        worker.incarnation: set(handler.missing) | (set(needs) - set(worker.capabilities))
        for worker in serving
        for handler in worker.handlers
        if (handler.kind, handler.version) == (kind, version)
    }
    if not lacks:
        handlers = [handler for worker in serving for handler in worker.handlers]
        return _without_handler(kind, version, handlers)
    able = tuple(incarnation for incarnation, lack in lacks.items() if not lack)
    if able:
        return Offered(able)
    return _without_needs(kind, version, list(lacks.values()), known)


def _without_handler(kind: str, version: str, handlers: list[Handler]) -> Missing:
    versions = {handler.version for handler in handlers if handler.kind == kind}
    if versions:
        return Missing((version,), f"no worker has kind {kind} {version}; versions that exist: {_listed(versions)}")
    kinds = {handler.kind for handler in handlers}
    return Missing((kind,), f"no worker has a kind {kind}; kinds that exist: {_listed(kinds)}")


def _without_needs(kind: str, version: str, lacks: list[set[str]], known: list[WorkerRow]) -> Missing:
    """Name what all candidates lack; else what they lack between them."""
    nowhere = set.intersection(*lacks)
    what = tuple(sorted(nowhere or set.union(*lacks)))
    asks = f"kind {kind} {version} needs {' and '.join(what)}"
    if not nowhere:
        return Missing(what, f"{asks} on one worker, which no single worker has")
    elsewhere = {name for worker in known for name in worker.capabilities}
    if nowhere & elsewhere:
        return Missing(what, f"{asks}, which no worker with that kind has")
    return Missing(what, f"{asks}, which no worker has")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
