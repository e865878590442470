"""Job modules that nobody should write, but somebody does."""

from __future__ import annotations

import os
import threading
from typing import Any

from planrun.jobs import JobContext, job

_lock = threading.Lock()


def _hold() -> None:
    with _lock:
        threading.Event().wait()


threading.Thread(target=_hold, daemon=True).start()


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__

    def __reduce__(self) -> str:
        raise RuntimeError("no")


@job("threaded")
def threaded(j: JobContext) -> dict[str, object]:
    """Run beside a thread that holds a lock since import."""
    return {"pid": os.getpid(), "home": os.environ["HOME"]}


@job("hostile")
def hostile(j: JobContext) -> None:
    """Params: what."""
    match j.params["what"]:
        case "error":
            raise UnprintableError
        case "progress":
            odd: list[Any] = [float("nan"), float("inf"), -1, 2, "half", None, [], 10**400]
            for fraction in odd:
                j.progress(fraction, fraction)
        case "flood":
            for n in range(1_000_000):
                j.progress(n / 1_000_000, "on")
