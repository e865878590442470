"""Options that all commands share, what the shell offers for them, and one call of the client.

What is offered is asked at each press of the tab key, and only a ledger that is there. An error offers nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Annotated, TypeVar

from cyclopts import Parameter
from cyclopts.completion import CompletionContext

from planrun.cli.saying import say
from planrun.client import AsyncClient
from planrun.config import URL_VARIABLE, Place, place_of, url_from
from planrun.core.errors import LedgerUnusable
from planrun.ledger.keyring import Keyring
from planrun.wiring import open_keyring

T = TypeVar("T")

OFFERED_MAX = 50
PATIENT_S = 2.0  # an orchestrator that is silent for longer is spoken of
LOOK_S = 1.0

TOKENS: ContextVar[tuple[str, ...]] = ContextVar("TOKENS")  # the command line that is being carried out

Url = Annotated[
    str | None,
    Parameter(name="--url", env_var=URL_VARIABLE, help="Where planrun lives. Without it: sqlite:///planrun.db."),
]
AsJson = Annotated[bool, Parameter(name="--json", show_default=False, help="Print one JSON document.")]
Flag = Annotated[bool, Parameter(show_default=False)]
Word = Annotated[str, Parameter(show_default=False)]  # empty: not given
Modules = Annotated[str, Parameter(name="MODULE", help="Import path of a module with @job functions.")]


def named(_: object, text: str | None) -> None:
    """The variable of a script that is not set must not mean all of them.

    Raises:
        ValueError: It is empty.
    """
    if text == "":
        raise ValueError("'' names none; leave it out for all")


def offer_jobs(context: CompletionContext) -> dict[str, str]:
    """The newest jobs, and what they are."""
    page = _offered(context, lambda client: client.list(limit=OFFERED_MAX))
    return {row.job_id: f"{row.kind} {row.version} {row.state}" for row in page.jobs}


def offer_kinds(context: CompletionContext) -> set[str]:
    """Kinds that have open jobs or a worker."""
    return {row.kind for row in _offered(context, lambda client: client.kinds())}


def offer_namespaces(context: CompletionContext) -> set[str]:
    """Namespaces that have open jobs or a worker."""
    return {row.namespace for row in _offered(context, lambda client: client.kinds())}


def offer_workers(context: CompletionContext) -> dict[str, str]:
    """Workers that live, and their state."""
    found = _offered(context, lambda client: client.workers())
    return {row.name: row.state for row in found if row.state not in ("gone", "lost")}


def _offered(context: CompletionContext, verb: Callable[[AsyncClient], Awaitable[T]]) -> T:
    return with_client(context["--url"].raw, verb)


JobId = Annotated[
    str,
    Parameter(
        name="JOB",
        completer=offer_jobs,
        help="Job id, its first characters (6 or more), or the request id of its submit.",
    ),
]


def repeated(metavar: str) -> Parameter:
    """An option that may be given several times."""
    return Parameter(metavar=metavar, show_default=False)


def existing(url: str | None) -> Place:
    """Where the ledger of an address lies.

    Raises:
        LedgerUnusable: There is none.
    """
    place = place_of(url_from(url))
    if not place.is_remote and not place.ledger.exists():
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
            place = place_of(url_from(url))
            if not place.is_remote:  # a file owes no answer, and a hundred who wait for it cost next to nothing
                return await verb(client)
            watching = asyncio.create_task(_say_who_is_silent(client, place.shown))
            try:
                return await verb(client)
            finally:
                watching.cancel()

    return asyncio.run(run())


async def _say_who_is_silent(client: AsyncClient, where: str) -> None:
    """Once per silence: nobody should have to guess what a command waits for."""
    was_said = False
    while True:
        await asyncio.sleep(LOOK_S)
        if client.silence_s >= PATIENT_S and not was_said:
            text = "gives no answer; asking on: who waits for a job until it comes, all else for a minute at most"
            say(f"planrun: {where} {text}. Ctrl-C stops the asking")
        elif was_said and client.silence_s == 0:
            say(f"planrun: {where} answers again")
        was_said = client.silence_s >= PATIENT_S


def with_keyring(url: str | None, verb: Callable[[Keyring], Awaitable[T]], *, may_create: bool = False) -> T:
    """Open the access tokens of a ledger's file, do one thing, close it.

    Args:
        may_create: As in `with_client`.

    Raises:
        Invalid: Not the address of a file.
        LedgerUnusable: There is no ledger at that address.
    """
    if not may_create:
        existing(url)

    async def run() -> T:
        keyring = open_keyring(url_from(url))
        try:
            return await verb(keyring)
        finally:
            await keyring.close()

    return asyncio.run(run())
