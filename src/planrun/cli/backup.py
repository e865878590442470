"""`planrun backup`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from planrun.cli.asking import AsJson, Url, with_client
from planrun.cli.exits import Exit
from planrun.cli.printing import print_json
from planrun.cli.words import size


def backup(file: Annotated[Path, Parameter(name="FILE")], /, *, json: AsJson = False, url: Url = None) -> int:
    """Copy the ledger to a new file while everything goes on, and look through the copy.

    It never overwrites. Results are not in it: copy the store afterwards.

    For example:

      planrun backup /backup/media.db

    Args:
        file: Where to; it must not exist yet.
    """
    with_client(url, lambda client: client.backup(file))
    count = file.stat().st_size
    if json:
        print_json({"file": str(file), "bytes": count})
    else:
        print(f"{file}, {size(count)}, whole; now copy the store")
    return Exit.FINISHED
