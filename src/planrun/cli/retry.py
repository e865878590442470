"""`planrun retry`."""

from __future__ import annotations

from planrun.cli.asking import AsJson, JobId, Url, Word, with_client
from planrun.cli.exits import Exit, exit_of
from planrun.cli.printing import print_json
from planrun.cli.saying import say
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
                new = await client.retry(old.job_id, why=why, who=who)
            except PlanrunError as error:
                if len(jobs) == 1:
                    raise
                lines.append({"job": job, "exit": int(exit_of(error)), "problem": str(error)})
            else:
                dropped = old.key is not None and not await _has_key(client, new.id)
                lines.append({"job": job, "job_id": new.id, "retry_of": old.job_id, "key_taken": dropped})
        return lines

    lines = with_client(url, run)
    if json:
        print_json(lines[0] if len(jobs) == 1 else lines)
    status: int = Exit.FINISHED
    for line in lines:
        if "problem" in line:
            say(f"planrun: {line['problem']}")
            status = status or int(str(line["exit"]))
            continue
        if not json:
            print(line["job_id"])
        if line["key_taken"]:
            say(f"{line['job']}: another job holds its key by now; the new one has none")
    return status


async def _has_key(client: AsyncClient, job_id: str) -> bool:
    """True also if nobody answers: the retry is made, and its id must be told."""
    try:
        return (await client.show(job_id)).key is not None
    except PlanrunError:
        return True
