"""`planrun retry`."""

from __future__ import annotations

import sys

from planrun.cli.asking import AsJson, JobId, Url, Word, with_client
from planrun.cli.exits import Exit, exit_of
from planrun.cli.printing import print_json
from planrun.client import AsyncClient
from planrun.core.errors import Invalid, PlanrunError


def retry(*jobs: JobId, why: Word = "", who: Word = "", json: AsJson = False, url: Url = None) -> int:
    """Submit failed or canceled jobs again, and print the new ids. The old jobs stay as they ended.

    A new job has the inputs, params, needs and priority of the old one, and its key if no other job holds it by now.
    While a retry of a job is open, another one is refused, and names it. With several jobs --json prints a list.

    For example:

      planrun retry my-request-7 --why "the disk is empty again"

    Args:
        why: For the history of both jobs.
        who: Who retries, for the history of both jobs.
    """
    if not jobs:
        raise Invalid("name at least one JOB")

    async def run(client: AsyncClient) -> list[dict[str, object]]:
        lines: list[dict[str, object]] = []
        for job in jobs:
            try:
                old = await client.show(job)
                new = await client.show((await client.retry(old.job_id, why=why, who=who)).id)
            except PlanrunError as error:
                if len(jobs) == 1:
                    raise
                lines.append({"job": job, "exit": int(exit_of(error)), "problem": str(error)})
            else:
                dropped = old.key is not None and new.key is None
                lines.append({"job": job, "job_id": new.job_id, "retry_of": old.job_id, "key_taken": dropped})
        return lines

    lines = with_client(url, run)
    if json:
        print_json(lines[0] if len(jobs) == 1 else lines)
    status: int = Exit.FINISHED
    for line in lines:
        if "problem" in line:
            print(f"planrun: {line['problem']}", file=sys.stderr)
            status = status or int(str(line["exit"]))
            continue
        if not json:
            print(line["job_id"])
        if line["key_taken"]:
            print(f"{line['job']}: another job holds its key by now; the new one has none", file=sys.stderr)
    return status
