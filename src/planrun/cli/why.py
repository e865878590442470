"""`planrun why`."""

from __future__ import annotations

from planrun.cli.asking import AsJson, JobId, Url, with_client
from planrun.cli.exits import Exit
from planrun.cli.printing import clean, print_json


def why(job: JobId, /, *, json: AsJson = False, url: Url = None) -> int:
    """Say in one sentence why a job is not running yet, or where it is.

    For example:

      planrun why my-request-7
      planrun why my-request-7 --json | jq -r .cause
    """
    found = with_client(url, lambda client: client.why(job))
    if json:
        print_json(found)
    else:
        print(clean(f"{found.job_id}: {found.sentence}"))
    return Exit.FINISHED
