"""planrun as a fleet: an orchestrator with an access token, workers and clients over HTTP, offers through RabbitMQ.

The first of its "workers" is the orchestrator. Kept: SQLite, WAL, synchronous=FULL. Warm kinds, as in `planrun.py`.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from pathlib import Path
from urllib.request import urlopen

from bench.peers.note import told
from planrun import Client

TOLD = told()
ROOT = Path(__file__).parents[2]
LEDGER = f"sqlite:///{TOLD.folder / 'planrun.db'}"
TOKEN = TOLD.folder / "token"
ADDRESS = TOLD.folder / "address"
KIND = "noop-fresh" if TOLD.fresh else "noop"
BOOT_S = 30


class Connection:
    def __init__(self) -> None:
        os.environ["PLANRUN_TOKEN"] = TOKEN.read_text()
        self._client = Client(wait_answering())

    def submit(self, number: int) -> None:
        self._client.submit(KIND, params={"number": number})

    def submit_long(self, seconds: float) -> None:
        self._client.submit("sleep", params={"seconds": seconds})

    def close(self) -> None:
        self._client.close()


def wait_answering() -> str:
    """The orchestrator's address, once it is there."""
    url = f"http://{ADDRESS.read_text()}"
    deadline = time.monotonic() + BOOT_S
    while True:
        try:
            urlopen(f"{url}/v1/health", timeout=1).close()
            return url
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def prepare() -> None:
    scopes = ["--scope", "submit", "--scope", "work", "--namespace", "*"]
    made = subprocess.run(
        [planrun(), "token", "create", *scopes, "--url", LEDGER, "--json"], capture_output=True, text=True, check=True
    )
    TOKEN.write_text(json.loads(made.stdout)["token"])
    with socket.create_server(("127.0.0.1", 0)) as probe:
        ADDRESS.write_text(f"127.0.0.1:{probe.getsockname()[1]}")


def connect() -> Connection:
    return Connection()


def workers(count: int) -> list[list[str]]:
    """A worker that finds nobody at the address yet ends: it is started again, as systemd would."""
    url = f"http://{ADDRESS.read_text()}"
    owner = [planrun(), "orchestrator", "--url", LEDGER, "--listen", ADDRESS.read_text()]
    broker = ["--broker", TOLD.server["rabbitmq"].removesuffix("/"), "--broker-prefix", f"bench-{os.getpid()}"]
    command = [planrun(), "worker", "bench.peers.planrun_jobs", "--url", url, "--scratch", str(TOLD.folder / "scratch")]
    options = ["--slots", str(TOLD.slots), "--import-path", str(ROOT), "--pass-environment", "BENCH_NOTES"]
    again = ["sh", "-c", f'export PLANRUN_TOKEN="$(cat {TOKEN})"; until "$@"; do sleep 0.2; done', "worker"]
    return [[*owner, *broker], *[[*again, *command, *options]] * count]


def planrun() -> str:
    return str(TOLD.binaries / "planrun")
