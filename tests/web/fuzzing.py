"""Random calls on a real server, whose ledger holds jobs in every state."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

from planrun.client import AsyncClient
from planrun.config import place_of
from planrun.core.life import State
from planrun.core.messages import Failure
from planrun.web.server import HttpServer, address_of, open_socket
from tests.client.stand_in import open_world

ROOT = Path(__file__).parents[2]
# What a call must be like to succeed is more than a schema can say: a file that exists, a key that is free.
UNFIT = ("positive_data_acceptance", "ensure_resource_availability", "use_after_free", "ignored_auth")


async def fill(url: str, folder: Path) -> dict[str, list[str]]:
    """Jobs in every state, some with a history, files and logs. Ids by `all` and `ended`."""
    (folder / "out.mp4").write_bytes(bytes(range(256)))
    async with open_world(url) as (client, hands):
        await client.submit("preview", request_id="queued")
        await client.submit("preview", request_id="delayed", delay_s=3600, key="k")
        await client.submit("preview", request_id="running")
        granted = await hands.take("running")
        log = place_of(url).log_of(granted.lease.job_id, 1)
        log.parent.mkdir(parents=True)
        log.write_bytes(bytes(range(256)))
        await client.submit("preview", request_id="finished", params={"x": [1, None, "é"]})
        await hands.finish("finished", value={"frames": 9}, files={"preview": folder / "out.mp4"})
        await client.submit("preview", request_id="failed")
        await hands.fail("failed", Failure(message="no such filter\nat all", code="bad-filter", tail="last\nline"))
        await client.submit("preview", request_id="canceled")
        await client.cancel("canceled", who="ann", why="wrong file")
        await client.submit("nobody-has-it", request_id="unsupported")
        rows = (await client.list()).jobs
    assert {row.state for row in rows} == set(State)
    ids = [row.job_id for row in rows]
    return {
        "all": [*ids, "running", "finished"],
        "ended": [row.job_id for row in rows if row.ended_at_ms is not None],
    }


@contextmanager
def served(url: str) -> Iterator[str]:
    """The server as `planrun up` runs it, in this process. Yields its address."""
    listening = open_socket("127.0.0.1:0", is_guarded=False, is_secure=False)
    server = HttpServer(url, listening, token="")
    server.start()
    try:
        yield address_of(listening).rstrip("/")
    finally:
        server.stop()


@contextmanager
def served_to_a_fleet(url: str) -> Iterator[str]:
    """An orchestrator, that serves what `planrun up` does, and the ledger itself. Yields its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        listen = f"127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "planrun.cli", "orchestrator", "--url", url, "--listen", listen]
    with (Path(place_of(url).ledger).parent / "orchestrator.log").open("wb+") as log:
        process = subprocess.Popen([*command, "--warm-after-s", "3600"], stdout=log, stderr=log)
        try:
            until = time.monotonic() + 30
            while time.monotonic() < until and process.poll() is None:
                with suppress(OSError), urlopen(f"http://{listen}/v1/health", timeout=1):
                    break
                time.sleep(0.05)
            yield f"http://{listen}"
        finally:
            process.terminate()
            process.wait(20)
            log.seek(0)
            assert b"Traceback" not in (said := log.read()), said.decode()


async def violations(url: str) -> list[str]:
    async with AsyncClient(url) as client:
        return list(await client.violations())


def fuzz(folder: Path, *options: str) -> tuple[int, str]:
    """Call every route at random. Returns the exit code of schemathesis, and what it printed.

    Args:
        folder: An empty one.
        options: Of schemathesis.
    """
    url = f"sqlite:///{folder}/ledger.db"
    jobs = asyncio.run(fill(url, folder))
    with served_to_a_fleet(url) as address:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli", "run", f"{address}/openapi.json"),
                *options,
                *("--checks", "all", "--exclude-checks", ",".join(UNFIT)),
                *("--request-timeout", "20", "--no-color", "--warnings", "off"),
                *("--suppress-health-check", "all"),
            ],
            cwd=folder,
            env={
                **os.environ,
                "SCHEMATHESIS_HOOKS": "tests.web.fuzz_hooks",
                "PYTHONPATH": str(ROOT),
                "PLANRUN_FUZZ_JOBS": json.dumps(jobs),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    alarm = "the ledger is behind its workers"  # a random attempt from ahead is what a restored ledger would meet
    broken = [broken for broken in asyncio.run(violations(url)) if not broken.startswith(alarm)]
    return (done.returncode, done.stdout) if not broken else (1, "\n".join(broken))
