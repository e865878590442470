"""`planrun drain` and `planrun drains`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

from planrun.cli.asking import AsJson, Flag, Url, Word, named, offer_workers, with_client
from planrun.cli.exits import Exit
from planrun.cli.printing import print_json, print_table
from planrun.cli.saying import say
from planrun.cli.words import moment
from planrun.client import AsyncClient
from planrun.clock import SystemClock
from planrun.core.drains import Drain


def drain(
    worker: Annotated[
        str | None, Parameter(name="WORKER", show_default=False, completer=offer_workers, validator=named)
    ] = None,
    /,
    *,
    undo: Flag = False,
    force: Flag = False,
    why: Word = "",
    who: Word = "",
    json: AsJson = False,
    url: Url = None,
) -> int:
    """Let a worker run empty: it takes no more jobs, what it runs goes on, and then it ends with exit code 0.

    planrun up does not start it again. Workers that start later are not drained. To stop at once: SIGTERM.
    Refused if open jobs would be left without a worker.

    For example:

      planrun drain box-4711 --who ann --why "new disk"
      planrun drain box-4711 --undo
      planrun drain --force

    Args:
        worker: Its name; without it all that live.
        undo: Let it take jobs again, if it has not ended yet.
        force: Although open jobs are left without a worker.
        why: For the history.
        who: Who drains, for the history.
    """

    async def run(client: AsyncClient) -> Sequence[str]:
        if undo:
            return await client.undrain(worker or "", who=who, why=why)
        return await client.drain(worker or "", who=who, why=why, force=force)

    names = with_client(url, run)
    if json:
        print_json({"undone" if undo else "drained": names})
        return Exit.FINISHED
    for name in names:
        print(f"worker {name} {'takes jobs again' if undo else 'is drained: it ends when what it runs has ended'}")
    if not names:
        say("no worker was drained" if undo else "none of them took jobs before")
    return Exit.FINISHED


def drains(*, limit: int = 50, json: AsJson = False, url: Url = None) -> int:
    """List drains, newest first, past ones too: who drained which worker, when and why.

    For example:

      planrun drains

    Args:
        limit: How many.
    """
    found = with_client(url, lambda client: client.drains(limit=limit))
    if json:
        print_json(found)
        return Exit.FINISHED
    now = SystemClock.open_system().now()
    print_table(
        ("worker", "drained", "who", "why", "over", "undone by", "why"),
        (
            (
                row.worker,
                moment(row.drained_at_ms, now),
                row.who,
                row.why,
                "" if row.ended_at_ms is None else moment(row.ended_at_ms, now),
                _undone(row),
                row.undone_why,
            )
            for row in found
        ),
    )
    return Exit.FINISHED


def _undone(row: Drain) -> str:
    return (row.undone_who or "somebody") if row.undone else ""
