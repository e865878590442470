"""DBOS Transact on SQLite. The queue is asked each 0.1 s instead of each second.

No limit of concurrency: with one, a worker takes as many jobs as it has free slots once per interval, 10 a second here.
A dead executor's workflows wait for the same executor to come back, or for DBOS's own service: another one leaves them.
So a worker that is started again keeps its name. On SIGTERM it waits for the workflow, here as long as it has.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from dbos import DBOS, DBOSClient

from bench.peers import note

SETTINGS = {
    "POLL_S = 0.1": "a look at the queue each 0.1 s; by default each second",
    "DBOS__VMID": "each worker has a name of its own, and takes up what was left under it when it is started again",
    "workflow_completion_timeout_sec": "SIGTERM waits for the workflow; by default it is left at once",
    "os._exit(0)": "a workflow that outlasts this does not keep its process until SIGKILL",
    '"workflow_id": f"long-{number}"': "a second submit with the id of a known workflow joins it",
}
TOLD = note.told()
URL = f"sqlite:///{TOLD.folder / 'dbos.sqlite'}"
POLL_S = 0.1


class Connection:
    def __init__(self) -> None:
        self._client = DBOSClient(system_database_url=URL)

    def submit(self, number: int) -> None:
        self._client.enqueue({"queue_name": "bench", "workflow_name": "noop"}, number)

    def submit_many(self, numbers: list[int]) -> None:
        with self._client._sys_db.engine.begin() as transaction:
            for number in numbers:
                self._client.enqueue_in_transaction(
                    transaction, {"queue_name": "bench", "workflow_name": "noop"}, number
                )

    def submit_long(self, number: int, seconds: float) -> None:
        options = {"queue_name": "bench", "workflow_name": "long", "workflow_id": f"long-{number}"}
        self._client.enqueue(options, number, seconds)

    def answer(self, number: int) -> str | None:
        status = self._client.retrieve_workflow(f"long-{number}").get_status()
        return status.output if status.status == "SUCCESS" else None

    def close(self) -> None:
        self._client.destroy()


def launch() -> None:
    DBOS(
        config={
            "name": "bench",
            "system_database_url": URL,
            "run_admin_server": False,
            "log_level": "ERROR",
            "application_version": "v1",
        }
    )
    DBOS.workflow(name="noop")(note.noop)
    DBOS.workflow(name="long")(note.long)
    DBOS.launch()


async def prepare() -> None:
    launch()
    await DBOS.register_queue_async("bench", polling_interval_sec=POLL_S, on_conflict="always_update")
    DBOS.destroy()


def connect() -> Connection:
    return Connection()


def workers(count: int) -> list[list[str]]:
    executor = f"DBOS__VMID={os.getpid()}"
    return [["env", f"{executor}-{number}", sys.executable, "-m", "bench.peers.dbos"] for number in range(count)]


def main() -> None:
    """A worker."""
    launch()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    stop.wait()
    DBOS.destroy(workflow_completion_timeout_sec=TOLD.grace_s - note.MARGIN_S)
    os._exit(0)


if __name__ == "__main__":
    main()
