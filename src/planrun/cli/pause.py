"""`planrun pause`, `planrun resume` and `planrun pauses`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

from planrun.cli.asking import AsJson, Url, Word, named, offer_kinds, offer_namespaces, with_client
from planrun.cli.exits import Exit
from planrun.cli.printing import clean, print_json, print_table
from planrun.cli.saying import say
from planrun.cli.words import moment
from planrun.client import AsyncClient
from planrun.clock import SystemClock
from planrun.core.pauses import Pause, PauseRequest, pause_in_words, set_in_words

Kind = Annotated[
    str | None,
    Parameter(name="KIND", show_default=False, completer=offer_kinds, validator=named, help="Only jobs of this kind."),
]
Namespace = Annotated[
    str | None,
    Parameter(show_default=False, completer=offer_namespaces, validator=named, help="Only jobs of this namespace."),
]


def pause(
    kind: Kind = None,
    /,
    *,
    namespace: Namespace = None,
    why: Word = "",
    who: Word = "",
    json: AsJson = False,
    url: Url = None,
) -> int:
    """Start no more jobs of a kind or a namespace, or none at all. What runs goes on; what waits keeps its place.

    For example:

      planrun pause preview --why "the card is being changed" --who ann
      planrun pause --namespace ads

    Args:
        why: For the history.
        who: Who pauses, for the history.
    """
    which = PauseRequest(kind=kind or "", namespace=namespace or "")
    done = with_client(url, lambda client: client.pause(kind=which.kind, namespace=which.namespace, who=who, why=why))
    what = set_in_words(which)
    if json:
        print_json({"paused": done, "kind": which.kind, "namespace": which.namespace})
    else:
        print(f"{what} is paused" if done else f"{what} was paused already")
    return Exit.FINISHED


def resume(
    kind: Kind = None,
    /,
    *,
    namespace: Namespace = None,
    why: Word = "",
    who: Word = "",
    json: AsJson = False,
    url: Url = None,
) -> int:
    """Let jobs start again that were paused by the same words, and name the pauses that stay in force.

    For example:

      planrun resume preview --who ann
      planrun resume --namespace ads

    Args:
        why: For the history.
        who: Who resumes, for the history.
    """

    which = PauseRequest(kind=kind or "", namespace=namespace or "")

    async def run(client: AsyncClient) -> tuple[bool, Sequence[Pause]]:
        done = await client.resume(kind=which.kind, namespace=which.namespace, who=who, why=why)
        return done, await client.pauses()

    done, left = with_client(url, run)
    what = set_in_words(which)
    if json:
        print_json({"resumed": done, "kind": which.kind, "namespace": which.namespace, "still_paused": left})
        return Exit.FINISHED
    print(f"{what} is resumed" if done else f"{what} was not paused")
    for found in left:
        say(clean(f"still: {pause_in_words(found)}"))
    return Exit.FINISHED


def pauses(*, limit: int = 50, json: AsJson = False, url: Url = None) -> int:
    """List pauses, newest first, past ones too: who paused and resumed what, when and why.

    For example:

      planrun pauses

    Args:
        limit: How many.
    """
    found = with_client(url, lambda client: client.pauses(limit=limit))
    if json:
        print_json(found)
        return Exit.FINISHED
    now = SystemClock.open_system().now()
    print_table(
        ("what", "paused", "who", "why", "resumed", "who", "why"),
        (
            (
                set_in_words(row),
                moment(row.paused_at_ms, now),
                row.who,
                row.why,
                "" if row.resumed_at_ms is None else moment(row.resumed_at_ms, now),
                row.resumed_who,
                row.resumed_why,
            )
            for row in found
        ),
    )
    return Exit.FINISHED
