"""A private fleet for one test: an orchestrator over HTTP, workers, and the real services between them."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from deploy.local.rabbitmq import RabbitMQ
from deploy.local.s3 import BUCKET, S3Server
from planrun.core.messages import Output
from planrun.ledger.contract import Ledger
from planrun.storage.s3 import S3Store
from planrun.wiring import open_ledger

from .lab import ROOT, Lab, WorkerProcess
from .netns import Network

PATIENCE_S = 40.0


def free_port(host: str = "127.0.0.1") -> int:
    with socket.create_server((host, 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


@dataclass(eq=False)
class Fleet(Lab):
    """Make one per test with an empty folder; `end` stops every process that it started, the services excepted.

    Attributes:
        broker, s3: Running services; None: it works without. All that it has in the broker begins with `prefix`.
        broker_url: How the orchestrator knows that broker, if not by its own address.
        network: Hosts on which workers may be started; the orchestrator is at its hub.
        options: More options of `planrun orchestrator`.
        trips: Where the orchestrator looks for places to stop at.
    """

    broker: RabbitMQ | None = None
    broker_url: str = ""
    s3: S3Server | None = None
    network: Network | None = None
    lease_s: float = 6.0
    options: Sequence[str] = ()
    trips: Path | None = None
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    prefix: str = field(default_factory=lambda: f"t{secrets.token_hex(4)}")
    port: int = 0
    orchestrator: WorkerProcess | None = None
    _remote: Ledger | None = None

    @property
    def host(self) -> str:
        return self.network.hub_address if self.network is not None else "127.0.0.1"

    @property
    def remote_url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """What every process of the fleet gets; where S3 is, the orchestrator alone is told."""
        return {"PLANRUN_TOKEN": self.token}

    @property
    def ledger(self) -> Ledger:
        """As clients have it: over HTTP."""
        if self._remote is None:
            os.environ.update(self.environment)  # a test's process is a client of one fleet at a time
            self._remote = open_ledger(self.remote_url)
        return self._remote

    # --- the orchestrator ---

    def start_orchestrator(self, *more: str) -> WorkerProcess:
        """Start it, or start it again at the same address, and wait until it answers."""
        self.port = self.port or free_port(self.host)
        command = ["orchestrator", "--url", self.url, "--listen", f"{self.host}:{self.port}"]
        command += ["--lease-s", str(self.lease_s), *self.options, *more]
        if self.network is not None:
            command += ["--insecure-http"]  # nobody else is on it
        if self.broker is not None:
            command += ["--broker", self.broker_url or self.broker.url, "--broker-prefix", self.prefix]
        if self.s3 is not None:
            command += ["--store", f"s3://{BUCKET}/{self.folder.name}"]
        environment = self.s3.environment if self.s3 is not None else {}
        if self.trips is not None:
            environment = {**environment, "PLANRUN_TRIP_DIR": str(self.trips)}
        self.orchestrator = self._start(
            "orchestrator.log", [sys.executable, "-m", "planrun.cli", *command], environment
        )
        self.answers()
        return self.orchestrator

    def answers(self, *, timeout_s: float = PATIENCE_S) -> None:
        """Wait until the orchestrator answers."""
        assert self.orchestrator is not None
        deadline = time.monotonic() + timeout_s
        while True:
            assert self.orchestrator.process.poll() is None, f"it has ended:\n{self.orchestrator.text[-2000:]}"
            try:
                with urlopen(Request(f"{self.remote_url}/v1/health"), timeout=1) as reply:
                    assert reply.status == 200
                    return
            except OSError:
                assert time.monotonic() < deadline, f"no answer:\n{self.orchestrator.text[-2000:]}"
                time.sleep(0.02)

    def kill_orchestrator(self) -> None:
        assert self.orchestrator is not None
        self.orchestrator.kill()

    def planrun(self, *command: str) -> str:
        """A command of an operator, as a process; returns what it printed."""
        told = [sys.executable, "-m", "planrun.cli", *command, "--url", self.remote_url]
        done = subprocess.run(
            told, env={**os.environ, **self.environment}, capture_output=True, text=True, timeout=30, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    # --- jobs ---

    async def submit_all(self, kind: str, count: int, **params: Any) -> list[str]:
        """So many jobs of one kind in one call."""
        return [reply.job_id for reply in await self.ledger.submit([self.request(kind, params) for _ in range(count)])]

    async def all_ended(self, *, timeout_s: float = 120) -> None:
        """Wait until no job is open. The file itself is read: whoever serves it may be away."""

        async def none_open() -> bool:
            return self.rows("SELECT count(*) FROM job WHERE ended_at_ms IS NULL") == [(0,)]

        await self.until(none_open, "all jobs have ended", timeout_s=timeout_s, every_s=0.1)

    async def all_ended_once(self, *, timeout_s: float = 120) -> int:
        """Wait until all jobs have ended, and see that each was started once and is whole. How many there were."""
        await self.all_ended(timeout_s=timeout_s)
        jobs = self.rows("SELECT job_id, state FROM job")
        assert {state for _, state in jobs} == {"finished"}, self.last_words()
        started = Counter(start.job_id for start in self.starts())
        again = {job_id: count for job_id, count in started.items() if count > 1}
        assert not again, f"started again: {again}\n{self.last_words()}"
        assert set(started) == {job_id for job_id, _ in jobs}
        twice = "SELECT job_id FROM attempt WHERE outcome = 'success' GROUP BY job_id HAVING count(*) > 1"
        assert self.rows(twice) == []
        await self.check(*(job_id for (job_id,) in self.rows("SELECT job_id FROM result WHERE outputs <> '[]'")))
        return len(jobs)

    async def content(self, output: Output) -> bytes:
        if self.s3 is None:
            return await super().content(output)
        store = S3Store(BUCKET, self.folder.name, endpoint=self.s3.endpoint, access=self.s3.environment)
        target = self.folder / "copy"
        await asyncio.to_thread(store.get, output.key, target, sha256=output.sha256)
        return target.read_bytes()

    # --- workers ---

    def start_worker(
        self,
        *,
        environment: dict[str, str] | None = None,
        host: str | None = None,
        instead_of: WorkerProcess | None = None,
        **options: Any,
    ) -> WorkerProcess:
        """A worker that joins over HTTP; on a host of the network if one is named, or where another one was."""
        name = f"worker-{len(self.workers)}"
        home = self.folder / (name if instead_of is None else instead_of.log.stem) / "cache"
        home.mkdir(parents=True, exist_ok=True)
        options.setdefault("name", name)
        on = self.network.on(host) if self.network is not None and host is not None else ()
        command = [*on, sys.executable, "-m", "tests.worker_main", self.remote_url, json.dumps(options)]
        worker = self._start(f"{name}.log", command, {"XDG_CACHE_HOME": str(home), **(environment or {})})
        self.workers.append(worker)
        return worker

    async def ready(self, count: int) -> None:
        """As in a lab; more processes start there, and they load more."""
        deadline = time.monotonic() + PATIENCE_S
        while sum(row.state == "ready" for row in await self.ledger.workers()) < count:
            assert time.monotonic() < deadline, f"workers are not ready:\n{self.last_words()}"
            await asyncio.sleep(0.02)

    def last_words(self) -> str:
        words = [] if self.orchestrator is None else [f"--- orchestrator\n{self.orchestrator.text[-3000:]}"]
        return "\n".join([*words, super().last_words()])

    async def end(self) -> None:
        """Stop everything that this fleet has started."""
        for worker in [*self.workers, *([self.orchestrator] if self.orchestrator is not None else [])]:
            if worker.process.poll() is None:
                worker.process.send_signal(signal.SIGCONT)
                worker.kill()
        if self._remote is not None:
            await self._remote.close()

    def _start(self, log_name: str, command: Sequence[str], environment: dict[str, str] | None = None) -> WorkerProcess:
        log = self.folder / log_name
        with log.open("ab") as out:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **self.environment, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        return WorkerProcess(process, Path(log))
