"""Every route, once. What a route takes is said by its function's parameters, what it answers by `replies`."""

from __future__ import annotations

import typing
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import msgspec
from starlette.responses import Response

from planrun.core.access import Caller, Scope
from planrun.core.fleet import Fleet
from planrun.core.messages import CancelReply, JobRow, Struct
from planrun.core.printed import LogPiece
from planrun.core.why import Why
from planrun.sim.lab.history import History
from planrun.web import files, following, jobs, lab, ledger, operating
from planrun.web.bodies import (
    AttemptList,
    BulkReply,
    Counts,
    DrainList,
    DrainReply,
    EventPage,
    Health,
    JobAnswer,
    JobPage,
    KindList,
    PauseList,
    PauseReply,
    ResumeReply,
    RetryReply,
    Submitted,
    UndrainReply,
    WorkerList,
)
from planrun.web.problems import (
    BAD_JSON,
    BUG,
    CONFLICT,
    FOREIGN_HOST,
    FOREIGN_NAMESPACE,
    FOREIGN_PAGE,
    INVALID,
    LAB_BUSY,
    LEDGER_BUSY,
    LEDGER_UNAVAILABLE,
    LEDGER_UNUSABLE,
    NO_FLEET,
    NO_OUTPUT,
    NO_RANGE,
    NO_TOKEN,
    NO_VERB,
    NOT_ENDED,
    NOT_JSON,
    OTHER_PROTOCOL,
    RESULT_GONE,
    STOPPING,
    STORAGE,
    TOO_LARGE,
    TOO_SLOW,
    UNKNOWN_JOB,
    WRONG_SCOPE,
    Fault,
)

ANY_BYTES = "*/*"
TEXT = "text/plain"

ALWAYS = (FOREIGN_HOST, FOREIGN_PAGE, INVALID, BUG, LEDGER_BUSY, LEDGER_UNAVAILABLE, LEDGER_UNUSABLE, STORAGE)
WITH_BODY = (BAD_JSON, TOO_LARGE, TOO_SLOW, NOT_JSON)
OF_A_FLEET = (NO_FLEET, OTHER_PROTOCOL)


@dataclass(frozen=True, slots=True)
class Route:
    """Attributes:
    replies: Status → what the body is: a struct, a media type, or None for no body.
    faults: Problems of its own, beside those that follow from what it takes.
    scope: What the caller's token must be for; None: it needs none.
    by_verb: Its function says for itself what the token must be for: each verb of the ledger, or nothing.
    """

    method: str
    path: str
    function: Callable[..., Awaitable[Response]]
    replies: Mapping[int, type[Struct] | str | None]
    faults: tuple[Fault, ...] = ()
    scope: Scope | None = Scope.SUBMIT
    by_verb: bool = False

    @property
    def takes(self) -> Mapping[str, type[msgspec.Struct]]:
        """Those of `query`, `headers` and `body` that it takes."""
        hints = typing.get_type_hints(self.function)
        return {name: hints[name] for name in ("query", "headers", "body") if name in hints}

    @property
    def all_faults(self) -> tuple[Fault, ...]:
        """Every problem that it may answer with."""
        faults = [*ALWAYS, *self.faults]
        if self.scope is not None:
            faults += (NO_TOKEN, WRONG_SCOPE)
        if "body" in self.takes:
            faults += WITH_BODY
        if "{job}" in self.path:
            faults += (UNKNOWN_JOB, RESULT_GONE)
        return tuple(sorted(set(faults), key=lambda fault: (fault.status, fault.slug)))


JOB = "/v1/jobs/{job}"
OPERATE = Scope.OPERATE

ROUTES = (
    Route("POST", "/v1/jobs", jobs.submit, {201: Submitted, 200: Submitted}, (CONFLICT, FOREIGN_NAMESPACE)),
    Route("POST", "/v1/bulk", jobs.submit_bulk, {200: BulkReply}, (CONFLICT, FOREIGN_NAMESPACE)),
    Route("GET", "/v1/jobs", jobs.list_jobs, {200: JobPage}, (FOREIGN_NAMESPACE,)),
    Route("GET", JOB, jobs.show, {200: JobRow}),
    Route("GET", f"{JOB}/wait", following.wait, {200: JobAnswer, 202: JobRow}, (STOPPING,)),
    Route("GET", f"{JOB}/stream", following.stream, {200: following.EVENT_STREAM, 204: None}),
    Route("GET", f"{JOB}/result", jobs.result, {200: JobAnswer}, (NOT_ENDED,)),
    Route(
        "GET",
        f"{JOB}/outputs/{{output}}",
        files.output,
        {200: ANY_BYTES, 206: ANY_BYTES, 304: None, 307: None},
        (NO_OUTPUT, NOT_ENDED, NO_RANGE),
    ),
    Route("GET", f"{JOB}/events", jobs.events, {200: EventPage}),
    Route("GET", f"{JOB}/attempts", jobs.attempts, {200: AttemptList}),
    Route("GET", f"{JOB}/logs", jobs.logs, {200: TEXT}),
    Route("GET", f"{JOB}/log", jobs.log, {200: LogPiece}),
    Route("GET", f"{JOB}/why", jobs.why, {200: Why}),
    Route("POST", f"{JOB}/cancel", jobs.cancel, {200: CancelReply}),
    Route("POST", f"{JOB}/retry", jobs.retry, {201: RetryReply}),
    Route("GET", "/v1/kinds", operating.kinds, {200: KindList}),
    Route("GET", "/v1/workers", operating.workers, {200: WorkerList}),
    Route("GET", "/v1/drains", operating.drains, {200: DrainList}, (FOREIGN_NAMESPACE,), OPERATE),
    Route("POST", "/v1/drains", operating.drain, {200: DrainReply}, (FOREIGN_NAMESPACE,), OPERATE),
    Route("POST", "/v1/drains/undo", operating.undrain, {200: UndrainReply}, (FOREIGN_NAMESPACE,), OPERATE),
    Route("GET", "/v1/counts", operating.counts, {200: Counts}, (FOREIGN_NAMESPACE,)),
    Route("GET", "/v1/pauses", operating.pauses, {200: PauseList}),
    Route("POST", "/v1/pauses", operating.pause, {200: PauseReply}, (FOREIGN_NAMESPACE,), OPERATE),
    Route("POST", "/v1/pauses/resume", operating.resume, {200: ResumeReply}, (FOREIGN_NAMESPACE,), OPERATE),
    Route("GET", "/v1/fleet", ledger.fleet, {200: Fleet}, OF_A_FLEET, Scope.WORK),
    Route(
        "POST",
        "/v1/ledger/{verb}",
        ledger.ask_ledger,
        {200: "application/json"},
        (
            *WITH_BODY,
            CONFLICT,
            UNKNOWN_JOB,
            RESULT_GONE,
            NO_FLEET,
            NO_VERB,
            OTHER_PROTOCOL,
            STOPPING,
            FOREIGN_NAMESPACE,
        ),
        by_verb=True,
    ),
    Route("GET", "/v1/lab", lab.lab_run, {200: History}, (LAB_BUSY, STOPPING), by_verb=True),
    Route("GET", "/v1/me", operating.me, {200: Caller}, by_verb=True),
    Route("GET", "/v1/health", operating.health, {200: Health}, scope=None),
)
