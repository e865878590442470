"""planrun: long jobs that finish exactly once.

    from planrun import Client
    from planrun.jobs import job, JobContext, Permanent

The names below are the public ones. They are resolved lazily: importing `planrun.jobs` inside a job
process loads no client, store or database.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planrun.client import Answer, AsyncClient, Client, JobHandle, Submit
    from planrun.core.errors import (
        Conflict,
        Fatal,
        Invalid,
        LedgerBusy,
        LedgerUnavailable,
        LedgerUnusable,
        Permanent,
        PlanrunError,
        ResultGone,
        Transient,
        UnknownJob,
        WaitTimeout,
    )
    from planrun.embed import Worker

_HOMES = {
    "Answer": "planrun.client",
    "AsyncClient": "planrun.client",
    "Client": "planrun.client",
    "Conflict": "planrun.core.errors",
    "Fatal": "planrun.core.errors",
    "Invalid": "planrun.core.errors",
    "JobHandle": "planrun.client",
    "LedgerBusy": "planrun.core.errors",
    "LedgerUnavailable": "planrun.core.errors",
    "LedgerUnusable": "planrun.core.errors",
    "Permanent": "planrun.core.errors",
    "PlanrunError": "planrun.core.errors",
    "ResultGone": "planrun.core.errors",
    "Submit": "planrun.client",
    "Transient": "planrun.core.errors",
    "UnknownJob": "planrun.core.errors",
    "WaitTimeout": "planrun.core.errors",
    "Worker": "planrun.embed",
}

__all__ = [
    "Answer",
    "AsyncClient",
    "Client",
    "Conflict",
    "Fatal",
    "Invalid",
    "JobHandle",
    "LedgerBusy",
    "LedgerUnavailable",
    "LedgerUnusable",
    "Permanent",
    "PlanrunError",
    "ResultGone",
    "Submit",
    "Transient",
    "UnknownJob",
    "WaitTimeout",
    "Worker",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'planrun' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
