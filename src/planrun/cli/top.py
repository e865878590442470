"""`planrun top`: what runs, what waits for what, and who works."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from planrun.cli.asking import AsJson, Flag, Url, with_client
from planrun.cli.exits import Exit
from planrun.cli.printing import clean, empty_table, print_json
from planrun.cli.status import bar_of
from planrun.cli.words import job_document
from planrun.client import AsyncClient
from planrun.clock import Instant, SystemClock
from planrun.core.coverage import Coverage
from planrun.core.durations import span
from planrun.core.errors import Invalid
from planrun.core.life import State
from planrun.core.messages import JobRow
from planrun.core.presence import Presence

RUNNING_MAX = 20
LATELY_S = 60.0


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything on one page.

    Attributes:
        jobs: Per state.
        waiting: Queued jobs by what holds them.
        ended: In the last minute, per state.
        running: The newest ones.
        workers: Those that live.
    """

    now: Instant
    jobs: Mapping[str, int]
    waiting: Mapping[str, int]
    ended: Mapping[str, int]
    running: Sequence[JobRow]
    workers: Sequence[Presence]


def top(*, once: Flag = False, every_s: float = 2.0, json: AsJson = False, url: Url = None) -> int:
    """Watch what runs, what waits for what, and who works. Ctrl-C ends the watching.

    Without a terminal, and with --json, it looks once.

    For example:

      planrun top
      planrun top --once
      planrun top --json | jq .waiting

    Args:
        once: Look once.
        every_s: Seconds between two looks.
    """
    if not 0.2 <= every_s <= 3600:
        raise Invalid(f"--every-s {every_s}: use 0.2 to 3600")
    if not (once or json) and sys.stdout.isatty():
        with_client(url, lambda client: _watch(client, every_s))
        return Exit.FINISHED
    seen = with_client(url, look)
    if json:
        print_json(
            {
                "jobs": seen.jobs,
                "waiting": seen.waiting,
                "ended_last_minute": seen.ended,
                "running": [job_document(row, seen.now) for row in seen.running],
                "workers": seen.workers,
            }
        )
    else:
        Console(highlight=False, markup=False, emoji=False).print(page(seen))
    return Exit.FINISHED


async def look(client: AsyncClient) -> Overview:
    """One look at the ledger."""
    now = SystemClock.open_system().now()
    return Overview(
        now=now,
        jobs=await client.counts(),
        waiting=waiting_by_reason(await client.kinds()),
        ended=await client.ended(within_s=LATELY_S),
        running=(await client.list(state=State.RUNNING, limit=RUNNING_MAX)).jobs,
        workers=[row for row in await client.workers() if row.state not in ("gone", "lost")],
    )


def waiting_by_reason(kinds: Sequence[Coverage]) -> dict[str, int]:
    """Queued jobs, delayed ones too: of a paused kind, of one that nobody takes, or in line."""
    found = Counter({"paused": 0, "no-worker": 0, "in-line": 0})
    for row in kinds:
        found["paused" if row.pause is not None else "in-line" if row.live else "no-worker"] += row.queued
    return dict(found)


def page(seen: Overview) -> RenderableType:
    """The page, for people."""
    ended = sum(seen.ended.values())
    parts: list[RenderableType] = [
        Text(_counted(seen.jobs)),
        Text(f"waiting: {_counted(seen.waiting)}"),
        Text(f"ended in the last minute: {ended}{f' ({_counted(seen.ended)})' if ended else ''}"),
        Text(),
        _workers(seen),
    ]
    if seen.running:
        parts += [Text(), _running(seen)]
    return Group(*parts)


def _workers(seen: Overview) -> Table:
    table = empty_table(("worker", "state", "runs", "host", "seen"))
    for row in seen.workers:
        cells = row.name, row.state, f"{row.running} of {row.slots}", row.host, f"{span(row.silent_ms)} ago"
        table.add_row(*(Text(clean(cell)) for cell in cells))
    return table


def _running(seen: Overview) -> Table:
    table = empty_table(("running", "kind", ""))
    for row in seen.running:
        table.add_row(row.job_id, Text(clean(f"{row.kind} {row.version}")), bar_of(row, seen.now))
    return table


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {what}" for what, count in counts.items())


async def _watch(client: AsyncClient, every_s: float) -> None:
    try:
        with Live(console=Console(), screen=True, auto_refresh=False) as live:
            while True:
                live.update(page(await look(client)), refresh=True)
                await asyncio.sleep(every_s)
    except asyncio.CancelledError:
        return  # Ctrl-C
