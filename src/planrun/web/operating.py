"""Routes of the box: kinds, workers, pauses, health."""

from __future__ import annotations

from importlib.metadata import version

from starlette.responses import Response

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


async def kinds(call: Call, *, query: NoQuery) -> Response:
    """Each kind and version: its open jobs, and the workers that live and run it."""
    return write_json(KindList(kinds=tuple(await call.client.kinds())))


async def workers(call: Call, *, query: NoQuery) -> Response:
    """The workers of the last day: when each was seen, what it runs, and whether it is lost."""
    return write_json(WorkerList(workers=tuple(await call.client.workers())))


async def drains(call: Call, *, query: DrainsQuery) -> Response:
    """Who drained which worker and why, newest first."""
    return write_json(DrainList(drains=tuple(await call.client.drains(limit=query.limit))))


async def drain(call: Call, *, query: NoQuery, body: DrainBody) -> Response:
    """Let workers run empty: they take no more jobs, finish what runs, and end."""
    done = await call.client.drain(body.worker, who=body.who, why=body.why, force=body.force)
    return write_json(DrainReply(drained=tuple(done)))


async def undrain(call: Call, *, query: NoQuery, body: UndrainBody) -> Response:
    """Let drained workers take jobs again."""
    done = await call.client.undrain(body.worker, who=body.who, why=body.why)
    return write_json(UndrainReply(undone=tuple(done)))


async def counts(call: Call, *, query: CountsQuery) -> Response:
    """Jobs per state."""
    return write_json(Counts(counts=await call.client.counts(namespace=query.namespace)))


async def pauses(call: Call, *, query: PausesQuery) -> Response:
    """Who paused what and why, newest first."""
    return write_json(PauseList(pauses=tuple(await call.client.pauses(limit=query.limit))))


async def pause(call: Call, *, query: NoQuery, body: PauseBody) -> Response:
    """Start no more jobs of a kind or a namespace, or none at all. What runs goes on; what waits keeps its place."""
    done = await call.client.pause(kind=body.kind, namespace=body.namespace, who=body.who, why=body.why)
    return write_json(PauseReply(paused=done))


async def resume(call: Call, *, query: NoQuery, body: PauseBody) -> Response:
    """Let jobs start again that were paused by the same words."""
    done = await call.client.resume(kind=body.kind, namespace=body.namespace, who=body.who, why=body.why)
    return write_json(ResumeReply(resumed=done, still_paused=tuple(await call.client.pauses())))


async def health(call: Call, *, query: NoQuery) -> Response:
    """Does the ledger answer? Needs no token."""
    await call.client.pauses()
    return write_json(Health(ok=True, version=version("planrun")))
