"""A program that submits, one call after the other, or each in a process of its own at the same moment.

    python -m tests.submitter_main URL in-turn|at-once CALLS-AS-JSON WAIT-SECONDS-AS-JSON

Prints one JSON line for each call: its number, and what it was told.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from planrun.client import Client
from planrun.core.errors import Conflict


def main() -> None:
    url, manner, calls, wait_s = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), json.loads(sys.argv[4])
    if manner == "at-once":
        at_once(url, calls, wait_s)
    with Client(url) as client:
        for n, call in enumerate(calls):
            say(n, told(client, call, wait_s))


def at_once(url: str, calls: list[dict[str, Any]], wait_s: float | None) -> None:
    """Fork one process per call; each opens a client of its own, and all are let go together."""
    ready, tell_ready = os.pipe()
    go, let_go = os.pipe()
    children = []
    for n, call in enumerate(calls):
        if child := os.fork():
            children.append(child)
            continue
        os.close(let_go)
        with Client(url) as client:
            os.write(tell_ready, b"!")
            os.read(go, 1)
            say(n, told(client, call, wait_s))
        os._exit(0)
    for _ in children:
        os.read(ready, 1)
    os.close(let_go)
    ends = [os.waitpid(child, 0)[1] for child in children]
    sys.exit(max(map(os.waitstatus_to_exitcode, ends)))


def told(client: Client, call: dict[str, Any], wait_s: float | None) -> dict[str, Any]:
    try:
        job = client.submit(**call)
    except Conflict as conflict:
        return {"error": "conflict", "job_id": conflict.job_id}
    said: dict[str, Any] = {"job_id": job.id, "disposition": job.disposition}
    if wait_s is not None:
        answer = job.wait(timeout_s=wait_s)
        files = {name: (file.key, file.sha256) for name, file in answer.outputs.items()}
        said["answer"] = [answer.job_id, answer.state, answer.reason, answer.attempt, files, answer.value]
    return said


def say(n: int, text: dict[str, Any]) -> None:
    os.write(1, f"{json.dumps([n, text])}\n".encode())  # in one piece: others print, too


if __name__ == "__main__":
    main()
