"""`planrun events` and `planrun logs`: what happened to a job, and what it printed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated

from cyclopts import Parameter

from planrun.cli.asking import AsJson, JobId, Url, repeated, with_client
from planrun.cli.exits import Exit
from planrun.cli.printing import clean, print_json, print_json_line, print_table
from planrun.cli.saying import say
from planrun.cli.wait import interruptible
from planrun.cli.words import moment, time_of_day
from planrun.client import AsyncClient
from planrun.clock import SystemClock
from planrun.core.errors import Invalid
from planrun.core.history import What
from planrun.core.life import State
from planrun.core.messages import EventRow, JobRow

Follow = Annotated[
    bool,
    Parameter(
        name=("--follow", "-f"),
        show_default=False,
        help="Go on until the job has ended; with --json one document a line.",
    ),
]


def events(
    job: JobId,
    /,
    *,
    what: Annotated[tuple[str, ...], repeated("MOVE")] = (),
    attempt: int | None = None,
    follow: Follow = False,
    json: AsJson = False,
    url: Url = None,
) -> int:
    """Print the history of a job, oldest first: each move with its time, attempt, worker and cause.

    For example:

      planrun events my-request-7
      planrun events my-request-7 --what lost --what released --json
      planrun events my-request-7 --follow

    Args:
        what: Only moves of that name, such as granted, lost or checkpoint. Repeat it for more.
        attempt: Only of this attempt.
    """

    unknown = sorted(set(what) - set(What))
    if unknown:
        raise Invalid(f"move {unknown[0]!r:.80}: use one of {', '.join(What)}")

    def is_asked(row: EventRow) -> bool:
        return (not what or row.what in what) and attempt in (None, row.attempt)

    if follow:
        with_client(url, lambda client: _follow_events(client, job, is_asked, as_json=json))
        return Exit.FINISHED
    rows = [row for row in with_client(url, lambda client: client.events(job)) if is_asked(row)]
    if json:
        print_json(rows)
        return Exit.FINISHED
    now = SystemClock.open_system().now()
    print_table(
        ("when", "what", "attempt", "who", "detail"),
        (
            (
                moment(row.at_ms, now),
                row.what,
                "" if row.attempt is None else str(row.attempt),
                row.who,
                row.detail,
            )
            for row in rows
        ),
    )
    return Exit.FINISHED


def logs(
    job: JobId,
    /,
    *,
    attempt: int | None = None,
    follow: Follow = False,
    json: AsJson = False,
    url: Url = None,
) -> int:
    """Print what a job printed.

    For example:

      planrun logs my-request-7 --attempt 1
      planrun logs my-request-7 --follow

    Args:
        attempt: Which attempt; without it the newest one that printed something.
    """

    async def run(client: AsyncClient) -> tuple[JobRow, str]:
        row = await client.show(job)
        if follow:
            await _follow_logs(client, row.job_id, attempt, as_json=json)
        return row, "" if follow else await client.logs(row.job_id, attempt=attempt)

    row, text = with_client(url, run)
    if follow:
        return Exit.FINISHED
    if json:
        print_json({"job_id": row.job_id, "attempt": attempt, "log": text})
    elif text:
        _write(text if text.endswith("\n") else f"{text}\n")
    else:
        later = f" so far; what it prints on {row.worker} is here within half a minute"
        is_running = row.state is State.RUNNING
        say(f"{row.job_id} has printed nothing{later if is_running else ''}")
    return Exit.FINISHED


async def _follow_events(client: AsyncClient, job: str, is_asked: Callable[[EventRow], bool], *, as_json: bool) -> None:
    with interruptible(job):
        async for row in client.follow_events(job):
            if not is_asked(row):
                continue
            if as_json:
                print_json_line(row)
                continue
            number = "" if row.attempt is None else f"attempt {row.attempt}"
            words = (time_of_day(row.at_ms), row.what, number, row.who, row.detail)
            print(clean("  ".join(filter(None, words))), flush=True)


async def _follow_logs(client: AsyncClient, job: str, attempt: int | None, *, as_json: bool) -> None:
    shown = None
    with interruptible(job):
        async for part in client.follow_logs(job, attempt=attempt):
            if as_json:
                print_json_line({"job_id": job, "attempt": part.attempt, "log": part.text})
                continue
            if shown not in (None, part.attempt):
                say(f"attempt {part.attempt}")
            shown = part.attempt
            _write(part.text)


def _write(text: str) -> None:
    """As the job wrote it: a log may be binary junk, and whoever reads it asked for that."""
    sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.flush()
