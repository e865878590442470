"""`planrun migrate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from planrun.cli.asking import AsJson, Flag, Url, existing
from planrun.cli.exits import Exit
from planrun.cli.printing import print_json
from planrun.config import url_from
from planrun.core.errors import Invalid
from planrun.wiring import ledger_facts, upgrade_ledger


def migrate(
    *,
    dry_run: Flag = False,
    backup: Annotated[Path | None, Parameter(show_default=False)] = None,
    no_backup: Flag = False,
    json: AsJson = False,
    url: Url = None,
) -> int:
    """Bring the ledger to the schema of this planrun, after a copy of it, and say what changes.

    Whatever opens a ledger does the same, without a copy. Workers may run meanwhile.

    For example:

      planrun migrate --dry-run
      planrun migrate --backup /backup/media.db

    Args:
        dry_run: Only say what would change.
        backup: Where the copy goes; without it beside the ledger, with its schema in the name.
        no_backup: Make no copy.
    """
    place = existing(url)
    if backup is not None and no_backup:
        raise Invalid("--backup and --no-backup contradict each other; give one of them")
    facts = ledger_facts(url_from(url))
    copy = backup or place.ledger.with_name(f"{place.ledger.name}.schema-{facts.schema}")
    wanted = None if no_backup or dry_run or not facts.missing else copy
    if not dry_run:
        upgrade_ledger(url_from(url), backup=wanted)
    schema = facts.schema if dry_run else facts.schema_known
    if json:
        steps = [{"schema": number, "name": name, "what": what} for number, name, what in facts.missing]
        print_json({"before": facts.schema, "schema": schema, "steps": steps, "backup": wanted and str(wanted)})
        return Exit.FINISHED
    for number, name, what in facts.missing:
        print(f"{number} {name}: {what}")
    if wanted is not None:
        print(f"{wanted}: the ledger as it was")
    if not facts.missing:
        print(f"{place.ledger} is up to date, schema {schema}")
    elif dry_run:
        print(f"{place.ledger} is at schema {schema} and would come to {facts.schema_known}; nothing was changed")
    else:
        print(f"{place.ledger} came from schema {facts.schema} to {schema}")
    return Exit.FINISHED
