"""What job code of every peer does, and what it was told.

Standard library only: it runs in each peer's own environment.

A note is one line of a file that all processes append to: a word, the job's number, the time, the process.
The time is CLOCK_MONOTONIC, which all processes of a machine share.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

SENT, STARTED, ENDED = "sent", "started", "ended"
LONG = 1_000_000  # the number of the one long job


@dataclass(frozen=True)
class Told:
    """What one measurement asks of a peer.

    Attributes:
        folder: Of this peer alone; empty before `prepare`.
        server: Address of the database or broker, by program.
        slots: Jobs that one worker may run at once.
        fresh: A new process for each job, where the peer has the choice.
        binaries: Where the peer's commands are.
    """

    folder: Path
    server: dict[str, str]
    slots: int
    fresh: bool
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
        slots=int(environment.get("BENCH_SLOTS", "1")),
        fresh=environment.get("BENCH_FRESH") == "1",
        binaries=Path(environment["BENCH_BINARIES"]),
    )


def note(word: str, number: int) -> None:
    line = f"{word} {number} {time.monotonic()} {os.getpid()}\n"
    with open(os.environ["BENCH_NOTES"], "ab", buffering=0) as notes:  # noqa: PTH123 - the hot path of each peer
        notes.write(line.encode())


def noop(number: int) -> None:
    note(STARTED, number)


def sleep(seconds: float) -> None:
    """The long job of the phases that kill."""
    note(STARTED, LONG)
    time.sleep(seconds)
    note(ENDED, LONG)
