"""`planrun events` and `planrun logs`: what happened to a job, and what it printed."""

from __future__ import annotations

import sys
from typing import Annotated

from planrun.cli.asking import AsJson, JobId, Url, repeated, with_client
from planrun.cli.exits import Exit
from planrun.cli.printing import print_json, print_table
from planrun.cli.words import moment
from planrun.client import AsyncClient
from planrun.clock import SystemClock


def events(
    job: JobId,
    /,
    *,
    what: Annotated[tuple[str, ...], repeated("MOVE")] = (),
    attempt: int | None = None,
    json: AsJson = False,
    url: Url = None,
) -> int:
    """Print the history of a job, oldest first: each move with its time, attempt, worker and cause.

    For example:

      planrun events my-request-7
      planrun events my-request-7 --what lost --what released --json

    Args:
        what: Only moves of that name, such as granted, lost or checkpoint. Repeat it for more.
        attempt: Only of this attempt.
    """
    rows = [
        row
        for row in with_client(url, lambda client: client.events(job))
        if (not what or row.what in what) and attempt in (None, row.attempt)
    ]
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


def logs(job: JobId, /, *, attempt: int | None = None, json: AsJson = False, url: Url = None) -> int:
    """Print what a job printed.

    For example:

      planrun logs my-request-7 --attempt 1

    Args:
        attempt: Which attempt; without it the newest one that printed something.
    """

    async def run(client: AsyncClient) -> tuple[str, str]:
        row = await client.show(job)
        return row.job_id, await client.logs(row.job_id, attempt=attempt)

    job_id, text = with_client(url, run)
    if json:
        print_json({"job_id": job_id, "attempt": attempt, "log": text})
    elif text:
        # As the job wrote it: a log may be binary junk, and whoever reads it asked for that.
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.write(b"" if text.endswith("\n") else b"\n")
    else:
        print(f"{job_id} has printed nothing on this box", file=sys.stderr)
    return Exit.FINISHED
