"""`planrun submit`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Any

from cyclopts import Parameter

from planrun.cli.asking import AsJson, Flag, Url, Word, offer_kinds, offer_namespaces, repeated, with_client
from planrun.cli.exits import Exit
from planrun.cli.printing import print_json
from planrun.cli.saying import say
from planrun.cli.wait import print_answer, waiting
from planrun.client import Answer, AsyncClient, AsyncJobHandle, Submit
from planrun.client.arguments import timeout_ms
from planrun.core.errors import Invalid, PlanrunError
from planrun.core.life import State


def submit(
    kind: Annotated[str, Parameter(completer=offer_kinds)],
    /,
    *pairs: Annotated[str, Parameter(name="K=V")],
    version: str = "v1",
    key: str | None = None,
    namespace: Annotated[str, Parameter(completer=offer_namespaces)] = "default",
    input: Annotated[tuple[str, ...], repeated("NAME=PATH")] = (),
    priority: int = 0,
    delay: float = 0,
    needs: Annotated[tuple[str, ...], repeated("CAPABILITY")] = (),
    max_attempts: int = 4,
    deadline: float | None = None,
    notify: Annotated[tuple[str, ...], repeated("ROUTE")] = (),
    publish: Annotated[tuple[str, ...], repeated("NAME[=OUTPUT]")] = (),
    request_id: str | None = None,
    who: Word = "",
    wait: Flag = False,
    timeout_s: float | None = None,
    json: AsJson = False,
    url: Url = None,
) -> int:
    """Hand a job in, and print its id.

    A job that no machine of the known fleet could ever run fails at once: then its answer is printed, exit code 1.

    For example:

      planrun submit preview --input upload=in/42.mov --key video-42/preview
      planrun submit preview width=1280 title="A b c" 'tags=["x","y"]' --wait
      planrun submit preview --input upload=in/42.mov --notify 'command:mail me'

    Args:
        kind: What to run, as declared with @job.
        pairs: Params. A value that is JSON is taken as JSON, all else as text.
        version: Exact version of the kind.
        key: The operation asked for: equal ones join the running job or get the stored answer. "content" makes it from
            kind, version, params and inputs. Without a key nothing is joined.
        namespace: Whose job it is.
        input: An input file, under the name that the job knows it by. Repeat it for more.
        priority: Higher runs earlier.
        delay: Not before so many seconds from now.
        needs: A capability that the worker must have, beside those of the kind. Repeat it for more.
        max_attempts: How often the job may fail by its own fault.
        deadline: The job fails if it has not ended so many seconds from now.
        notify: Who gets the answer: webhook:https://…, 'command:PROGRAM ARGUMENT…' or, in a fleet,
            rabbitmq:QUEUE. Repeat it for more.
        publish: A public name for the result's file, such as campaign-42/master.mp4; name the OUTPUT if there are
            several. The latest job that asked for a name, and finished, has it. Repeat it for more.
        request_id: Identity of this call: repeating it with the same id never makes a second job.
        who: Who asks, for the job's history.
        wait: Wait until the job has ended; the exit code says how.
        timeout_s: With --wait: give up after so many seconds; the job goes on.
    """
    if timeout_s is not None:
        timeout_ms(timeout_s)  # refused before anything is submitted
    asked = Submit(
        kind,
        version=version,
        inputs=_inputs_of(input),
        params=_params_of(pairs),
        key=key,
        request_id=request_id,
        namespace=namespace,
        needs=needs,
        priority=priority,
        delay_s=delay,
        max_attempts=max_attempts,
        deadline_s=deadline,
        subscribers=notify,
        publish=publish,
        who=who,
    )

    async def run(client: AsyncClient) -> tuple[AsyncJobHandle, Answer | None]:
        [job] = await client.submit_many([asked])
        if wait:
            say(f"{job.id} {job.disposition}")
            return job, await waiting(client, job.id, timeout_s)
        try:
            row = await client.show(job.id)
            return job, await client.result(job.id) if row.state is State.FAILED else None
        except PlanrunError:  # it is taken in: an error would make its caller hand in a second one
            return job, None

    job, answer = with_client(url, run, may_create=True)
    if answer is not None:
        # Waited for, or no machine of the fleet could ever run it: then it has failed already.
        return print_answer(answer, as_json=json)
    _print_job(job, as_json=json)
    return Exit.FINISHED


def _print_job(job: AsyncJobHandle, *, as_json: bool) -> None:
    if as_json:
        print_json({"job_id": job.id, "disposition": job.disposition})
        return
    print(job.id)
    if job.disposition != "new":
        say(f"{job.disposition}: no second job was made")


def _inputs_of(pairs: Iterable[str]) -> dict[str, str]:
    inputs: dict[str, str] = {}
    for pair in pairs:
        name, path = _split(pair, "--input NAME=PATH")
        if name in inputs:
            raise Invalid(f"--input {name} is given twice; every input has a name of its own")
        inputs[name] = path
    return inputs


def _params_of(pairs: Iterable[str]) -> dict[str, Any]:
    params: dict[str, Any] = {}
    for pair in pairs:
        name, text = _split(pair, "K=V")
        if name in params:
            raise Invalid(f"{name}=… is given twice; every param has a name of its own")
        params[name] = _value_of(name, text)
    return params


def _split(pair: str, form: str) -> tuple[str, str]:
    name, equals, value = pair.partition("=")
    if not equals or not name:
        raise Invalid(f"{pair}: write {form}")
    return name, value


def _value_of(name: str, text: str) -> Any:
    """What is no JSON is text; what is JSON and cannot be read is neither."""
    try:
        return json.loads(text, parse_constant=_no_number)
    except json.JSONDecodeError:
        return text
    except (ValueError, RecursionError):
        raise Invalid(
            f"{name}=…: a number of too many digits, or nested too deeply; pass such data as an input file"
        ) from None


def _no_number(text: str) -> None:
    raise json.JSONDecodeError("no JSON number", text, 0)
