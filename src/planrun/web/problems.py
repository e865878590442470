"""Errors as `application/problem+json` (RFC 9457): a slug that never changes, and a detail that says what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from starlette.responses import Response

from planrun.core.errors import (
    Conflict,
    Invalid,
    LedgerBusy,
    LedgerUnavailable,
    LedgerUnusable,
    PlanrunError,
    ResultGone,
    StorageError,
    UnknownJob,
    WaitTimeout,
)
from planrun.core.problems import Problem
from planrun.web.replies import write_json

RETRY_AFTER_S = 1
DETAIL_CHARS_MAX = 1000


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of problem."""

    slug: str
    status: int
    title: str


BAD_JSON = Fault("bad-json", 400, "The body is no JSON")
NO_TOKEN = Fault("no-token", 401, "The token is missing or wrong")
WRONG_SCOPE = Fault("wrong-scope", 403, "The token is not for such calls")
FOREIGN_NAMESPACE = Fault("foreign-namespace", 403, "The token is not for this namespace")
FOREIGN_HOST = Fault("foreign-host", 403, "The address in use is not this server's")
FOREIGN_PAGE = Fault("foreign-page", 403, "A page of another site asked for this")
NO_FLEET = Fault("no-fleet", 404, "This server is no orchestrator")
NO_ROUTE = Fault("no-such-route", 404, "There is nothing at this path")
UNKNOWN_JOB = Fault(UnknownJob.slug, 404, "There is no such job")
NO_OUTPUT = Fault("no-such-output", 404, "The job has no such output")
WRONG_METHOD = Fault("wrong-method", 405, "This path does not know that method")
TOO_SLOW = Fault("too-slow", 408, "The body did not arrive in time")
CONFLICT = Fault(Conflict.slug, 409, "The request id or key is taken by other content")
NOT_ENDED = Fault(WaitTimeout.slug, 409, "The job has not ended yet")
RESULT_GONE = Fault(ResultGone.slug, 410, "The result is no longer kept")
TOO_LARGE = Fault("too-large", 413, "The body is too large")
NOT_JSON = Fault("not-json", 415, "The body is not declared as JSON")
NO_RANGE = Fault("no-such-range", 416, "The file has no such range")
INVALID = Fault(Invalid.slug, 422, "Something in the call cannot be right")
OTHER_PROTOCOL = Fault("other-protocol", 426, "The two ends are of versions that do not understand each other")
BUG = Fault("bug", 500, "planrun made a mistake")
NO_VERB = Fault("no-such-verb", 404, "This orchestrator does not know that verb of the ledger")
LEDGER_BUSY = Fault(LedgerBusy.slug, 503, "The ledger is busy")
LEDGER_UNAVAILABLE = Fault(LedgerUnavailable.slug, 503, "The ledger gives no answer")
LEDGER_UNUSABLE = Fault(LedgerUnusable.slug, 503, "The ledger must not be opened here")
STORAGE = Fault(StorageError.slug, 503, "The store could not do it")
LAB_BUSY = Fault("lab-busy", 503, "Others play in the lab")
STOPPING = Fault("stopping", 503, "This server stops")

FAULTS = tuple(value for value in list(globals().values()) if isinstance(value, Fault))


@dataclass(eq=False)
class Refused(Exception):
    """What the door or a route says by itself, without asking the client."""

    fault: Fault
    detail: str
    headers: Mapping[str, str] = field(default_factory=dict)


def fault_of(error: PlanrunError) -> Fault:
    """Which kind of problem an error of the client is."""
    return next((fault for fault in FAULTS if fault.slug == error.slug), BUG)


def problem_of(error: PlanrunError | Refused) -> Problem:
    """What the caller gets to read."""
    fault, detail = (error.fault, error.detail) if isinstance(error, Refused) else (fault_of(error), str(error))
    return Problem(
        type=fault.slug,
        title=fault.title,
        status=fault.status,
        detail=_shown(detail),
        job_id=error.job_id if isinstance(error, Conflict) else None,
        holder_pid=error.holder_pid if isinstance(error, LedgerBusy) else None,
        disk_full=isinstance(error, StorageError) and error.disk_full,
    )


def _shown(detail: str) -> str:
    """One printable line: what the caller sent may be repeated in it."""
    line = " ".join(detail.split())[:DETAIL_CHARS_MAX]
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in line)


def problem_response(error: PlanrunError | Refused) -> Response:
    """An error as a response. Nobody keeps it: the next answer may be another."""
    problem = problem_of(error)
    headers = {"cache-control": "no-store"}
    if problem.status == 503:
        headers["retry-after"] = str(RETRY_AFTER_S)
    if isinstance(error, Refused):
        headers |= error.headers
    return write_json(problem, status=problem.status, headers=headers, media_type="application/problem+json")
