"""planrun as a fleet: an orchestrator with an access token, workers and clients over HTTP, offers through RabbitMQ.

Kept: SQLite, WAL, synchronous=FULL. Warm kinds, as in `planrun.py`.
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
from bench.peers.planrun import Connection
from planrun import Client

SETTINGS = {
    '"--lease-s", "10"': "a silent worker loses its jobs after 10 s; by default 90",
    "--broker": "offers, heartbeats and words to workers go through RabbitMQ",
}

TOLD = told()
ROOT = Path(__file__).parents[2]
LEDGER = f"sqlite:///{TOLD.folder / 'planrun.db'}"
TOKEN = TOLD.folder / "token"
ADDRESS = TOLD.folder / "address"
BOOT_S = 30


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


def prepare() -> list[list[str]]:
    """The orchestrator has to run beside the workers."""
    scopes = ["--scope", "submit", "--scope", "work", "--namespace", "*"]
    made = subprocess.run(
        [planrun(), "token", "create", *scopes, "--url", LEDGER, "--json"], capture_output=True, text=True, check=True
    )
    TOKEN.write_text(json.loads(made.stdout)["token"])
    with socket.create_server(("127.0.0.1", 0)) as probe:
        ADDRESS.write_text(f"127.0.0.1:{probe.getsockname()[1]}")
    owner = [planrun(), "orchestrator", "--url", LEDGER, "--listen", ADDRESS.read_text(), "--lease-s", "10"]
    return [[*owner, "--broker", TOLD.server["rabbitmq"].removesuffix("/"), "--broker-prefix", TOLD.queue]]


def connect() -> Connection:
    url = wait_answering()
    os.environ["PLANRUN_TOKEN"] = TOKEN.read_text()
    return Connection(Client(url))


def workers(count: int) -> list[list[str]]:
    """All on one machine."""
    return [["env", f"XDG_CACHE_HOME={TOLD.folder / 'cache'}", *worker()]] * count


def worker() -> list[str]:
    """Its lock and scratch are in XDG_CACHE_HOME: workers that share it are on one machine."""
    token = ["sh", "-c", f'export PLANRUN_TOKEN="$(cat {TOKEN})"; exec "$@"', "worker"]
    command = [planrun(), "worker", "bench.peers.planrun_jobs", "--url", wait_answering()]
    options = ["--slots", str(TOLD.slots), "--import-path", str(ROOT), "--pass-environment", "BENCH_NOTES"]
    return [*token, *command, *options]


def planrun() -> str:
    return str(TOLD.binaries / "planrun")
