"""What job code of every peer does, and what it was told.

Standard library only: it runs in each peer's own environment.

A note is one line of a file that all processes append to: a word, the job's number, the time, the process, the attempt.
The time is CLOCK_MONOTONIC, which all processes of a machine share. An attempt is named by the time of its start.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SENT, STARTED, READY, ENDED, ANSWERED = "sent", "started", "ready", "ended", "answered"
LONG = 1_000_000  # the number of the one long job
STEP_S = 0.1
LAST_S = 1.0  # between the end of the work and the writing of its result
MARGIN_S = 5  # so much before it would be killed, a worker gives up waiting for its job


@dataclass(frozen=True)
class Told:
    """What one measurement asks of a peer.

    Attributes:
        folder: Of this peer alone; empty before `prepare`.
        server: Address of the database or broker, by program.
        queue: Of this measurement alone: others may run on the same server.
        slots: Jobs that one worker may run at once.
        fresh: A new process for each job, where the peer has the choice.
        grace_s: How long after SIGTERM a worker may go on before it is killed.
        binaries: Where the peer's commands are.
    """

    folder: Path
    server: dict[str, str]
    queue: str
    slots: int
    fresh: bool
    grace_s: float
    binaries: Path


def told() -> Told:
    """Read it from the environment, as `bench/contender.py` writes it."""
    environment = os.environ
    return Told(
        folder=Path(environment["BENCH_FOLDER"]),
        server={
            name: address
            for name in ("postgresql", "redis", "rabbitmq")
            if (address := environment.get(f"BENCH_{name.upper()}"))
        },
        queue=environment["BENCH_QUEUE"],
        slots=int(environment.get("BENCH_SLOTS", "1")),
        fresh=environment.get("BENCH_FRESH") == "1",
        grace_s=float(environment["BENCH_GRACE_S"]),
        binaries=Path(environment["BENCH_BINARIES"]),
    )


def note(word: str, number: int, attempt: float = 0) -> float:
    """Returns its time, which names the attempt if it is a start."""
    at_s = time.monotonic()
    line = f"{word} {number} {at_s} {os.getpid()} {attempt or at_s}\n"
    with open(os.environ["BENCH_NOTES"], "ab", buffering=0) as notes:  # noqa: PTH123 - the hot path of each peer
        notes.write(line.encode())
    return at_s


def noop(number: int) -> None:
    note(STARTED, number)


def long(number: int, seconds: float, spent: str = "") -> str:
    """The long job of whatever interrupts one. Returns what it wrote, for the peer's own store of results.

    Args:
        spent: What the peer has counted against the job by now, if it says so to the job itself.
    """
    pauses = _work(number, seconds, spent)
    while True:
        try:
            time.sleep(next(pauses))
        except StopIteration as ended:
            return str(ended.value)


async def long_async(number: int, seconds: float, spent: str = "") -> str:
    """The same, as a coroutine."""
    pauses = _work(number, seconds, spent)
    while True:
        try:
            pause_s = next(pauses)
        except StopIteration as ended:  # it must not leave a coroutine
            return str(ended.value)
        await asyncio.sleep(pause_s)


def _work(number: int, seconds: float, spent: str) -> Generator[float, None, str]:
    """The pauses of a job. It is work: a job that is frozen does not get on.

    Its result goes to one file per job, whole or not at all, as a job writes that has only its queue's word that it is
    alone.
    """
    attempt = time.monotonic()
    folder = Path(os.environ["BENCH_NOTES"]).parent
    with _held(attempt_file(folder, attempt)):
        note(STARTED, number, attempt)
        yield from [STEP_S] * round((seconds - LAST_S) / STEP_S)
        note(READY, number, attempt)
        yield from [STEP_S] * round(LAST_S / STEP_S)
        words = json.dumps({"job": number, "attempt": attempt, "pid": os.getpid(), "spent": spent})
        place = result_file(folder, number)
        own = place.with_suffix(f".{attempt}")
        own.write_text(words)
        own.replace(place)
        note(ENDED, number, attempt)
    return words


@contextmanager
def _held(file: Path) -> Iterator[None]:
    """Locked as long as the attempt lives, in whichever namespace or thread it does."""
    with file.open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def result_file(folder: Path, number: int) -> Path:
    return folder / f"result-{number}.json"


def attempt_file(folder: Path, attempt: float) -> Path:
    return folder / f"attempt-{attempt}"


def attempt_in(words: str) -> float:
    """Whose words a result is."""
    attempt: float = json.loads(words)["attempt"]
    return attempt
