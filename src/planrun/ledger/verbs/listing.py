"""A page of jobs, newest first, in a time that does not grow with the ledger.

Which jobs are on it is found in indexes alone; then those few rows are read. A filter by namespace, kind, version or
state asks the counts which sets of jobs match, and each of them for the newest of its own.
"""

from __future__ import annotations

from typing import Any

from planrun.core.life import State
from planrun.core.listing import ListQuery
from planrun.core.messages import JobRow
from planrun.ledger.tx import Tx, dump, one
from planrun.ledger.verbs.reading import job_row

ID_MAX = 2**63 - 1
# What has ended has an index of each set. What waits is found in its line, what runs among those that do.
_NEWEST = {State.QUEUED: "newest_queued", State.RUNNING: "newest_running"}


def jobs(tx: Tx, query: ListQuery) -> tuple[list[JobRow], int | None]:
    """A page, newest first, and the cursor of the next one."""
    ids = _ids(tx, query, limit=query.limit + 1)
    page = ids[: query.limit]
    rows = [job_row(row) for row in tx.rows("jobs", ids=dump(page))]
    return rows, page[-1] if len(ids) > query.limit else None


def _ids(tx: Tx, query: ListQuery, *, limit: int) -> list[int]:
    sets = {"namespace": query.namespace, "kind": query.kind, "version": query.version, "state": query.state}
    first = 0 if query.since_ms is None else _first_since(tx, query.since_ms)
    span: dict[str, Any] = {
        "until": ID_MAX if query.before is None else query.before - 1,
        "since_ms": query.since_ms,
        "limit": limit,
    }
    among = query.namespaces
    if query.key is not None:
        named = [{**sets, "namespace": one} for one in among or () if query.namespace in (None, one)]
        looks = [sets] if among is None else named
        rows = [
            row for look in looks for row in tx.rows("newest_of_key", key=query.key, **look, **span, since_id=first)
        ]
        return sorted((row["id"] for row in rows), reverse=True)[:limit]
    if among is None and not any(sets.values()):
        return [row["id"] for row in tx.rows("newest", **span, since_id=first)]
    found: list[int] = []
    if query.state == State.RUNNING:  # so they are shown
        found = [row["id"] for row in tx.rows("newest_closing", **sets, **span, since_id=first)]
    for one_set in tx.rows("sets", **sets):
        if among is not None and one_set["namespace"] not in among:
            continue
        statement = _NEWEST.get(one_set["state"], "newest_of_set")
        rows = tx.rows(statement, **one_set, **span, since_id=first, closing_too=query.state is None)
        found = sorted((*found, *(row["id"] for row in rows)), reverse=True)[:limit]
        if len(found) == limit:
            first = found[-1]  # what is older does not come onto this page
    return found


def _first_since(tx: Tx, since_ms: int) -> int:
    """No older job was created since then; the clock may have been set back, so this is not simply the next one."""
    row = one(tx, "first_since", since_ms=since_ms)
    assert row is not None, "the ledger has lost its counter"
    return int(row["id"])
