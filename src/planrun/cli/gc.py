"""`planrun gc`."""

from __future__ import annotations

import logging
from pathlib import Path

from planrun.cli.asking import AsJson, Flag, Url, with_client
from planrun.cli.exits import Exit
from planrun.cli.printing import clean, print_json
from planrun.worker.options import WorkerOptions

DEFAULTS = WorkerOptions(modules=())


def gc(
    *,
    grace_s: float = DEFAULTS.gc_grace_s,
    scratch: Path | None = None,
    dry_run: Flag = False,
    now: Flag = False,
    json: AsJson = False,
    url: Url = None,
) -> int:
    """Remove what was kept long enough and what lost attempts left, and print it. Workers do the same by themselves.

    Results go after the time that their kind declares, then their files, then their jobs, to the archive.

    For example:

      planrun gc --dry-run
      planrun gc --grace-s 0

    Args:
        grace_s: Files of attempts that ended less than so many seconds ago stay.
        scratch: As for planrun worker.
        dry_run: Remove nothing; print what would go first.
        now: Go by the wall clock even if it was stepped less than a day ago.
    """
    logging.basicConfig(format="planrun: %(message)s")
    gone = with_client(url, lambda client: client.collect(grace_s=grace_s, scratch=scratch, dry_run=dry_run, now=now))
    if json:
        print_json({"gone": gone})
        return Exit.FINISHED
    for name in gone:
        print(clean(name))
    if not gone:
        print("nothing to remove")
    return Exit.FINISHED
