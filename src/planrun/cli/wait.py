"""`planrun wait` and `planrun result`: the answer, and an exit code for each end."""

from __future__ import annotations

import asyncio
import contextlib
import json as json_module
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from planrun.cli.asking import AsJson, JobId, Url, with_client
from planrun.cli.exits import Exit, exit_of, exit_of_state
from planrun.cli.printing import print_facts, print_json
from planrun.cli.saying import say
from planrun.cli.status import showing
from planrun.cli.words import failure_in_words, size
from planrun.client import Answer, AsyncClient
from planrun.core.errors import Invalid, PlanrunError, WaitTimeout


def wait(
    *jobs: JobId,
    timeout_s: Annotated[float | None, Parameter(env_var="PLANRUN_WAIT_TIMEOUT_S")] = None,
    json: AsJson = False,
    url: Url = None,
) -> int:
    """Wait until a job has ended, and print its answer. It is the same for everyone who asks.

    Meanwhile stderr says where the job is: a bar on a terminal, else a line now and then.

    With several jobs the exit code is that of the first one that did not finish, and --json prints a list.

    For example:

      planrun wait 0b9f2c1e-4c0a-5d7c-9a57-0c1d2f3e4a5b
      planrun wait my-request-7 --timeout-s 60 --json | jq .outputs

    Args:
        timeout_s: Give up after so many seconds; the job goes on.
    """
    if not jobs:
        raise Invalid("name at least one JOB")
    answers = with_client(url, lambda client: _wait_all(client, jobs, timeout_s))
    if json:
        documents = [_as_document(job, answer) for job, answer in zip(jobs, answers, strict=True)]
        print_json(documents[0] if len(jobs) == 1 else documents)
    statuses = [_report(answer, as_json=json) for answer in answers]
    return next((status for status in statuses if status is not Exit.FINISHED), Exit.FINISHED)


def result(
    job: JobId,
    /,
    *,
    save: Annotated[Path | None, Parameter(show_default=False)] = None,
    json: AsJson = False,
    url: Url = None,
) -> int:
    """Print the answer of an ended job, without waiting; with --save, also fetch its files.

    For example:

      planrun result my-request-7 --json | jq -r .outputs.preview.path
      planrun result my-request-7 --save results/

    Args:
        save: Folder for copies of its files, each under its name in the store. They are verified, and
            replace files of those names.
    """
    answer = with_client(url, lambda client: client.result(job))
    if save is not None:
        save_files(answer, save)
    return print_answer(answer, as_json=json)


def save_files(answer: Answer, folder: Path) -> None:
    """Copy all files of an answer into a folder, which is made if need be, and say where they are.

    Raises:
        Invalid: No such folder can be made.
        StorageError: A file could not be fetched or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Invalid(f"--save {folder}: {error.strerror}; choose another folder") from None
    taken: set[str] = set()
    for name, output in answer.outputs.items():
        file = output.key.rpartition("/")[2]
        target = folder / (name if file in taken else file)
        taken.add(target.name)
        output.save(target)
        say(f"saved {target}")


async def waiting(client: AsyncClient, job: str, timeout_s: float | None) -> Answer:
    """Wait for one job while stderr says where it is. Ctrl-C ends only the waiting.

    Raises:
        WaitTimeout: At the timeout, or at Ctrl-C.
    """
    with interruptible(job), showing() as status:
        async for seen in client.stream(job, timeout_s=timeout_s, every_s=status.every_s):
            if seen.answer is not None:
                return seen.answer
            status.show(seen.job)
    raise AssertionError("a stream ends with an answer")


@contextlib.contextmanager
def interruptible(*jobs: str) -> Iterator[None]:
    """Ctrl-C cancels the waiting task; say what that means, and what it does not."""
    try:
        yield
    except asyncio.CancelledError:
        names = " ".join(jobs)
        raise WaitTimeout(f"stopped waiting; the work goes on. `planrun wait {names}` waits again") from None


def print_answer(answer: Answer, *, as_json: bool) -> Exit:
    """Print one answer, and say what the shell sees of it."""
    if as_json:
        print_json(answer.as_dict())
    else:
        _print_words(answer)
    return exit_of_state(answer.state)


async def _wait_all(
    client: AsyncClient, jobs: Sequence[str], timeout_s: float | None
) -> Sequence[Answer | PlanrunError]:
    """The answers of all jobs in their order; several are waited for at once. One job's error is raised."""
    if len(jobs) == 1:
        return [await waiting(client, jobs[0], timeout_s)]

    async def one(job: str) -> Answer | PlanrunError:
        try:
            return await client.wait(job, timeout_s=timeout_s)
        except PlanrunError as error:
            return error

    say(f"waiting for {len(jobs)} jobs")
    with interruptible(*jobs):
        return await asyncio.gather(*map(one, jobs))


def _as_document(job: str, answer: Answer | PlanrunError) -> dict[str, object]:
    if isinstance(answer, Answer):
        return answer.as_dict()
    return {"job_id": job, "exit": int(exit_of(answer)), "problem": str(answer)}


def _report(answer: Answer | PlanrunError, *, as_json: bool) -> Exit:
    if isinstance(answer, PlanrunError):
        say(f"planrun: {answer}")
        return exit_of(answer)
    if not as_json:
        _print_words(answer)
    return exit_of_state(answer.state)


def _print_words(answer: Answer) -> None:
    end = f"{answer.state} ({answer.reason})" if answer.reason else str(answer.state)
    print(f"{answer.job_id} {end}")
    print_facts(answer_facts(answer))


def answer_facts(answer: Answer) -> Sequence[tuple[str, str]]:
    """What an answer holds, as name and value."""
    facts: list[tuple[str, str]] = []
    if answer.error is not None:
        facts += [("error", failure_in_words(answer.error)), ("printed", answer.error.tail.rstrip())]
    for name, output in answer.as_dict()["outputs"].items():
        where = output["path"] or f"{output['key']} (not on this box)"
        facts.append((name, f"{where}  {size(output['bytes'])}"))
    if answer.value is not None:
        facts.append(("value", value_text(answer.value)))
    return facts


def value_text(value: object) -> str:
    """A JSON value in one line."""
    return json_module.dumps(value, ensure_ascii=False)
