"""`planrun workers`."""

from __future__ import annotations

from collections.abc import Iterable

from planrun.cli.asking import AsJson, Url, with_client
from planrun.cli.exits import Exit
from planrun.cli.printing import print_json, print_table
from planrun.core.durations import span
from planrun.core.messages import Handler
from planrun.core.presence import Presence


def workers(*, json: AsJson = False, url: Url = None) -> int:
    """List the workers of the last day: when each was seen, what it runs, and whether it is lost.

    For example:

      planrun workers
      planrun workers --json | jq -r '.[] | select(.state == "lost") | .name'
    """
    found = with_client(url, lambda client: client.workers())
    if json:
        print_json(found)
    else:
        print_workers(found)
    return Exit.FINISHED


def print_workers(found: Iterable[Presence]) -> None:
    print_table(
        ("worker", "state", "seen", "running", "slots", "host", "pid", "kinds"),
        (
            (
                worker.name,
                worker.state,
                f"{span(worker.silent_ms)} ago",
                str(worker.running),
                str(worker.slots),
                worker.host,
                str(worker.pid),
                ", ".join(map(handler_in_words, worker.handlers)),
            )
            for worker in found
        ),
    )


def handler_in_words(handler: Handler) -> str:
    lacks = f" (lacks {', '.join(handler.missing)})" if handler.missing else ""
    return f"{handler.kind} {handler.version}{lacks}"
