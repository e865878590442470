"""`planrun kinds`."""

from __future__ import annotations

from planrun.cli.asking import AsJson, Url, with_client
from planrun.cli.exits import Exit
from planrun.cli.printing import print_json, print_table
from planrun.cli.saying import say
from planrun.core.pauses import pause_in_words


def kinds(*, json: AsJson = False, url: Url = None) -> int:
    """List each kind and version with its open jobs and the workers that live and run it.

    Warns, on stderr, of open jobs whose last worker is gone or takes no more work.

    For example:

      planrun kinds
      planrun kinds --json | jq '.[] | select(.warning != "")'
    """
    found = with_client(url, lambda client: client.kinds())
    if json:
        print_json(found)
        return Exit.FINISHED
    print_table(
        ("kind", "namespace", "queued", "running", "live workers", "leaving", "paused"),
        (
            (
                f"{row.kind} {row.version}",
                row.namespace,
                str(row.queued),
                str(row.running),
                ", ".join(row.live),
                ", ".join(row.leaving),
                "" if row.pause is None else pause_in_words(row.pause),
            )
            for row in found
        ),
    )
    for row in found:
        if row.warning:
            say(f"warning: {row.warning}")
    return Exit.FINISHED
