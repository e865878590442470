"""Options that all commands share, and one call of the client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Annotated, TypeVar

from cyclopts import Parameter

from planrun.client import AsyncClient
from planrun.config import URL_VARIABLE, Place, place_of, url_from
from planrun.core.errors import LedgerUnusable

T = TypeVar("T")

TOKENS: ContextVar[tuple[str, ...]] = ContextVar("TOKENS")  # the command line that is being carried out

Url = Annotated[
    str | None,
    Parameter(name="--url", env_var=URL_VARIABLE, help="Where planrun lives. Without it: sqlite:///planrun.db."),
]
AsJson = Annotated[bool, Parameter(name="--json", show_default=False, help="Print one JSON document.")]
Flag = Annotated[bool, Parameter(show_default=False)]
Word = Annotated[str, Parameter(show_default=False)]  # empty: not given
Modules = Annotated[str, Parameter(name="MODULE", help="Import path of a module with @job functions.")]
JobId = Annotated[str, Parameter(name="JOB", help="Job id, or the request id of its submit.")]


def repeated(metavar: str) -> Parameter:
    """An option that may be given several times."""
    return Parameter(metavar=metavar, show_default=False)


def existing(url: str | None) -> Place:
    """Where the ledger of an address lies.

    Raises:
        LedgerUnusable: There is none.
    """
    place = place_of(url_from(url))
    if not place.ledger.exists():
        raise LedgerUnusable(
            f"there is no ledger at {place.ledger}; name it with --url or {URL_VARIABLE}, or submit a first job"
        )
    return place


def with_client(url: str | None, verb: Callable[[AsyncClient], Awaitable[T]], *, may_create: bool = False) -> T:
    """Open a client, do one thing, close it.

    Args:
        may_create: Whether a ledger that is not there yet may be made. A typo in an address must not make one.

    Raises:
        LedgerUnusable: There is no ledger at that address.
    """
    if not may_create:
        existing(url)

    async def run() -> T:
        async with AsyncClient(url) as client:
            return await verb(client)

    return asyncio.run(run())
