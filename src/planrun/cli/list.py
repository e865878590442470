"""`planrun list`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from planrun.cli.asking import AsJson, Url, offer_kinds, offer_namespaces, with_client
from planrun.cli.exits import Exit
from planrun.cli.printing import print_json, print_table
from planrun.cli.saying import say
from planrun.cli.words import job_document, moment, state_in_words
from planrun.clock import SystemClock
from planrun.core.life import State


def list_jobs(
    *,
    namespace: Annotated[str | None, Parameter(completer=offer_namespaces)] = None,
    kind: Annotated[str | None, Parameter(completer=offer_kinds)] = None,
    version: str | None = None,
    state: Annotated[str | None, Parameter(completer=lambda context: list(State))] = None,
    key: str | None = None,
    since_s: float | None = None,
    limit: int = 50,
    before: int | None = None,
    json: AsJson = False,
    url: Url = None,
) -> int:
    """List jobs, newest first.

    For example:

      planrun list --state failed --since-s 86400
      planrun list --kind preview --limit 500 --json | jq -r '.jobs[].job_id'

    Args:
        namespace: Only of this namespace.
        kind: Only of this kind.
        version: Only of this version of its kind.
        state: Only queued, running, finished, failed or canceled.
        key: Only under this key.
        since_s: Only created in the last so many seconds.
        limit: How many.
        before: The cursor that the page before ended with.
    """
    page = with_client(
        url,
        lambda client: client.list(
            namespace=namespace,
            kind=kind,
            version=version,
            state=state,
            key=key,
            since_s=since_s,
            limit=limit,
            before=before,
        ),
    )
    now = SystemClock.open_system().now()
    if json:
        print_json({"jobs": [job_document(row, now) for row in page.jobs], "before": page.before})
        return Exit.FINISHED
    print_table(
        ("job", "kind", "namespace", "state", "created", "key"),
        (
            (
                row.job_id,
                f"{row.kind} {row.version}",
                row.namespace,
                state_in_words(row, now),
                moment(row.created_at_ms, now),
                row.key or "",
            )
            for row in page.jobs
        ),
    )
    if page.before is not None:
        say(f"More: --before {page.before}")
    return Exit.FINISHED
