"""`planrun cancel`."""

from __future__ import annotations

from planrun.cli.asking import AsJson, JobId, Url, Word, with_client
from planrun.cli.exits import Exit, exit_of
from planrun.cli.printing import print_json
from planrun.cli.saying import say
from planrun.client import AsyncClient
from planrun.core.errors import Invalid, PlanrunError
from planrun.core.life import State


def cancel(*jobs: JobId, why: Word = "", who: Word = "", json: AsJson = False, url: Url = None) -> int:
    """End jobs for every caller, at once. A job that has ended stays as it is.

    Exit code 0: none of them is running any more. With several jobs --json prints a list.

    For example:

      planrun cancel my-request-7 --why "wrong file"

    Args:
        why: For the job's history and its answer.
        who: Who cancels, for the job's history.
    """
    if not jobs:
        raise Invalid("name at least one JOB")

    async def run(client: AsyncClient) -> list[dict[str, object]]:
        lines: list[dict[str, object]] = []
        for job in jobs:
            try:
                reply = await client.cancel(job, why=why, who=who)
            except PlanrunError as error:
                if len(jobs) == 1:
                    raise
                lines.append({"job": job, "exit": int(exit_of(error)), "problem": str(error)})
            else:
                lines.append({"job": job, "canceled": reply.canceled, "state": str(reply.state)})
        return lines

    lines = with_client(url, run)
    if json:
        print_json(lines[0] if len(jobs) == 1 else lines)
    status: int = Exit.FINISHED
    for line in lines:
        if "problem" in line:
            say(f"planrun: {line['problem']}")
            status = status or int(str(line["exit"]))
        elif not json:
            state = "ended" if line["state"] == State.RUNNING else line["state"]  # how, is not said yet
            print(f"{line['job']} canceled" if line["canceled"] else f"{line['job']} was {state} already")
    return status
