"""Routes of the box: kinds, workers, pauses, health."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from importlib.metadata import version

from starlette.responses import Response

from planrun.clock import SystemClock
from planrun.core.access import Caller
from planrun.core.pauses import Pause
from planrun.web.asked import CountsQuery, DrainBody, DrainsQuery, NoQuery, PauseBody, PausesQuery, UndrainBody
from planrun.web.bodies import (
    Counts,
    DrainList,
    DrainReply,
    Health,
    KindList,
    PauseList,
    PauseReply,
    ResumeReply,
    UndrainReply,
    WorkerList,
)
from planrun.web.calls import Call
from planrun.web.replies import write_json

EVERY = ""  # what reaches every namespace: a worker, or a pause of everything


async def kinds(call: Call, *, query: NoQuery) -> Response:
    """Each kind and version: its open jobs, and the workers that live and run it."""
    rows = await call.client.kinds()
    return write_json(KindList(kinds=tuple(row for row in rows if call.bearer.sees(row.namespace))))


async def workers(call: Call, *, query: NoQuery) -> Response:
    """The workers of the last day: when each was seen, what it runs, and whether it is lost."""
    rows = await call.client.workers()
    return write_json(WorkerList(workers=tuple(row for row in rows if call.bearer.sees_any(row.namespaces))))


async def drains(call: Call, *, query: DrainsQuery) -> Response:
    """Who drained which worker and why, newest first."""
    call.need_namespace(EVERY)
    return write_json(DrainList(drains=tuple(await call.client.drains(limit=query.limit))))


async def drain(call: Call, *, query: NoQuery, body: DrainBody) -> Response:
    """Let workers run empty: they take no more jobs, finish what runs, and end."""
    call.need_namespace(EVERY)
    done = await call.client.drain(body.worker, who=body.who, why=body.why, force=body.force)
    return write_json(DrainReply(drained=tuple(done)))


async def undrain(call: Call, *, query: NoQuery, body: UndrainBody) -> Response:
    """Let drained workers take jobs again."""
    call.need_namespace(EVERY)
    done = await call.client.undrain(body.worker, who=body.who, why=body.why)
    return write_json(UndrainReply(undone=tuple(done)))


async def counts(call: Call, *, query: CountsQuery) -> Response:
    """Jobs per state. Without a namespace: of all that the token is for."""
    own = call.bearer.namespaces
    if query.namespace is not None:
        call.need_namespace(query.namespace)
    elif own is not None:
        found: Counter[str] = Counter()
        for namespace in own:
            found.update(await call.client.counts(namespace=namespace))
        return write_json(Counts(counts=dict(found)))
    return write_json(Counts(counts=await call.client.counts(namespace=query.namespace)))


async def pauses(call: Call, *, query: PausesQuery) -> Response:
    """Who paused what and why, newest first."""
    return write_json(PauseList(pauses=_seen(call, await call.client.pauses(limit=query.limit))))


async def pause(call: Call, *, query: NoQuery, body: PauseBody) -> Response:
    """Start no more jobs of a kind or a namespace, or none at all. What runs goes on; what waits keeps its place."""
    call.need_namespace(body.namespace)
    done = await call.client.pause(kind=body.kind, namespace=body.namespace, who=body.who, why=body.why)
    return write_json(PauseReply(paused=done))


async def resume(call: Call, *, query: NoQuery, body: PauseBody) -> Response:
    """Let jobs start again that were paused by the same words."""
    call.need_namespace(body.namespace)
    done = await call.client.resume(kind=body.kind, namespace=body.namespace, who=body.who, why=body.why)
    return write_json(ResumeReply(resumed=done, still_paused=_seen(call, await call.client.pauses())))


async def health(call: Call, *, query: NoQuery) -> Response:
    """Does the ledger answer? Needs no token."""
    await call.client.pauses()
    return write_json(Health(ok=True, version=version("planrun")))


async def me(call: Call, *, query: NoQuery) -> Response:
    """What the caller's token is for, and what time it is here. Any token will do."""
    bearer = call.bearer
    return write_json(
        Caller(
            name=bearer.name,
            scopes=tuple(sorted(bearer.scopes)),
            namespaces=None if bearer.namespaces is None else tuple(sorted(bearer.namespaces)),
            version=version("planrun"),
            wall_ms=SystemClock.open_system().now().wall_ms,
        )
    )


def _seen(call: Call, pauses: Iterable[Pause]) -> tuple[Pause, ...]:
    """Those that hold jobs of the caller's back."""
    return tuple(row for row in pauses if row.namespace == EVERY or call.bearer.sees(row.namespace))
