"""planrun itself, as a user has it: the public `Client`, and `planrun worker` with its defaults.

Kept: SQLite, WAL, synchronous=FULL. Warm kinds unless the phase asks for a process per job.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bench.peers.note import told
from planrun import Client, Submit

TOLD = told()
ROOT = Path(__file__).parents[2]
URL = f"sqlite:///{TOLD.folder / 'planrun.db'}"
KIND = "noop-fresh" if TOLD.fresh else "noop"


class Connection:
    def __init__(self) -> None:
        self._client = Client(URL)

    def submit(self, number: int) -> None:
        self._client.submit(KIND, params={"number": number})

    def submit_many(self, numbers: Iterable[int]) -> None:
        self._client.submit_many(Submit(KIND, params={"number": number}) for number in numbers)

    def submit_long(self, seconds: float) -> None:
        self._client.submit("sleep", params={"seconds": seconds})

    def close(self) -> None:
        self._client.close()


def prepare() -> None:
    Client(URL).close()


def connect() -> Connection:
    return Connection()


def workers(count: int) -> list[list[str]]:
    command = [str(TOLD.binaries / "planrun"), "worker", "bench.peers.planrun_jobs", "--url", URL]
    options = ["--slots", str(TOLD.slots), "--import-path", str(ROOT), "--pass-environment", "BENCH_NOTES"]
    return [[*command, *options]] * count
