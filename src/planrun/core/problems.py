"""Errors as they travel (RFC 9457): a slug that never changes, and a detail that says what to do.

The slug of an exception stands at its class, so that it comes back as what it was.
"""

from __future__ import annotations

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
from planrun.core.messages import Struct

PLAIN = {kind.slug: kind for kind in (Invalid, UnknownJob, ResultGone, WaitTimeout, LedgerUnavailable, LedgerUnusable)}
# No fault of the call, and nothing that passes: this caller, or this version of planrun, is not served here.
NOT_SERVED = (401, 403, 404, 405, 426)


class Problem(Struct, kw_only=True):
    """What went wrong.

    Attributes:
        type: Slug for programs.
        title: What such problems have in common.
        status: The HTTP status.
        detail: What is wrong here, and what to do.
        job_id: The job that holds the key, if that is the problem.
        holder_pid: The process on the server's box that holds the ledger's lock, if that is the problem.
        disk_full: The store had no room.
    """

    type: str
    title: str
    status: int
    detail: str
    job_id: str | None = None
    holder_pid: int | None = None
    disk_full: bool = False


def error_of(problem: Problem) -> PlanrunError:
    """The exception that a problem was, or what a caller of the ledger can make of it."""
    match problem.type:
        case Conflict.slug:
            return Conflict(problem.detail, job_id=problem.job_id or "")
        case LedgerBusy.slug:
            return LedgerBusy(problem.detail, holder_pid=problem.holder_pid or 0)
        case StorageError.slug:
            return StorageError(problem.detail, disk_full=problem.disk_full)
        case slug if slug in PLAIN:
            return PLAIN[slug](problem.detail)
    if problem.status in NOT_SERVED:
        return LedgerUnusable(problem.detail)
    return Invalid(problem.detail) if problem.status < 500 else LedgerUnavailable(problem.detail)
