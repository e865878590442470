"""`planrun gc`."""

from __future__ import annotations

from pathlib import Path

from planrun.cli.asking import AsJson, Url, with_client
from planrun.cli.exits import Exit
from planrun.cli.printing import clean, print_json
from planrun.worker.options import WorkerOptions

DEFAULTS = WorkerOptions(modules=())


def gc(
    *,
    grace_s: float = DEFAULTS.gc_grace_s,
    scratch: Path | None = None,
    json: AsJson = False,
    url: Url = None,
) -> int:
    """Remove what lost attempts left behind, once, and print what has gone. Workers do the same from time to time.

    For example:

      planrun gc --grace-s 0

    Args:
        grace_s: Files of attempts that ended less than so many seconds ago stay.
        scratch: As for planrun worker.
    """
    gone = with_client(url, lambda client: client.collect(grace_s=grace_s, scratch=scratch))
    if json:
        print_json({"gone": gone})
        return Exit.FINISHED
    for name in gone:
        print(clean(name))
    if not gone:
        print("nothing to remove")
    return Exit.FINISHED
