"""planrun itself, as a user has it: the public `Client`, and `planrun worker` with its defaults.

Kept: SQLite, WAL, synchronous=FULL. Warm kinds unless the phase asks for a process per job.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bench.peers.note import told
from planrun import Client, Submit
from planrun.core.life import State
from planrun.core.messages import JobRow

SETTINGS = {
    '"--lease-s", "10"': "a frozen worker loses its jobs after 10 s; by default 60. A killed one is proven dead",
    "key=str(number)": "a second submit of that operation joins the job, or is told its answer",
}
TOLD = told()
ROOT = Path(__file__).parents[2]
URL = f"sqlite:///{TOLD.folder / 'planrun.db'}"
KIND = "noop-fresh" if TOLD.fresh else "noop"


class Connection:
    def __init__(self, client: Client) -> None:
        self._client = client

    def submit(self, number: int) -> None:
        self._client.submit(KIND, params={"number": number})

    def submit_many(self, numbers: Iterable[int]) -> None:
        self._client.submit_many(Submit(KIND, params={"number": number}) for number in numbers)

    def submit_long(self, number: int, seconds: float) -> None:
        self._client.submit("long", params={"number": number, "seconds": seconds}, key=str(number))

    def answer(self, number: int) -> str | None:
        job = self._job(number)
        if job.state is not State.FINISHED:
            return None
        copy = TOLD.folder / f"copy-{number}"  # of the stored file, which a fleet's client has elsewhere
        self._client.result(job.job_id).outputs["result"].save(copy)
        return copy.read_text()

    def spent(self, number: int) -> str:
        job = self._job(number)
        counts = (
            (job.failures, job.max_attempts, "failures"),
            (job.losses, job.max_losses, "losses"),
            (job.handbacks, job.max_handbacks, "hand-backs"),
        )
        return ", ".join(f"{count} of {limit} {what}" for count, limit, what in counts)

    def close(self) -> None:
        self._client.close()

    def _job(self, number: int) -> JobRow:
        return self._client.list(key=str(number)).jobs[0]


def prepare() -> None:
    Client(URL).close()


def connect() -> Connection:
    return Connection(Client(URL))


def workers(count: int) -> list[list[str]]:
    command = [str(TOLD.binaries / "planrun"), "worker", "bench.peers.planrun_jobs", "--url", URL, "--lease-s", "10"]
    options = ["--slots", str(TOLD.slots), "--import-path", str(ROOT), "--pass-environment", "BENCH_NOTES"]
    return [[*command, *options]] * count
