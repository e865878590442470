"""Requests with nothing special about them, and parties in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from planrun.core.messages import Handler, SubmitRequest, WorkerRow

HANDLER = Handler(kind="preview", version="v1")
PARTY = Path(__file__).with_name("party.py")


def a_request(request_id: str, *, key: str | None = None) -> SubmitRequest:
    return SubmitRequest(request_id=request_id, kind="preview", content_hash="c", request_hash="h", key=key)


def a_worker(incarnation: str) -> WorkerRow:
    return WorkerRow(incarnation=incarnation, name=incarnation, host="box", slots=1, handlers=(HANDLER,))


@contextmanager
def a_party(url: str, prefix: str, count: int, *, trips: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    """A process that submits `count` jobs, one after the other, and prints each acknowledged request id."""
    environment = {**os.environ, "PLANRUN_TRIP_DIR": str(trips)} if trips else None
    process = subprocess.Popen(
        [sys.executable, PARTY, url, prefix, str(count)], stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def wait_until(holds: Callable[[], bool], *, timeout_s: float = 20) -> None:
    """Poll until something holds.

    Raises:
        AssertionError: It did not, in time.
    """
    until = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < until, "waited too long"
        time.sleep(0.01)


def a_holder(lock: Path) -> subprocess.Popen[str]:
    """A process that locks a file, says so in a line, and holds it until it gets one."""
    code = "import fcntl, sys; file = open(sys.argv[1]); fcntl.flock(file, 2); print('held', flush=True); input()"
    command = [sys.executable, "-c", code, str(lock)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
