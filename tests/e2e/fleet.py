"""A fleet of one box for a test: `planrun orchestrator` and workers in processes of their own, on a free port."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class FleetOfOneBox:
    """Attributes:
    folder: The ledger lies there, the logs of the processes, and what they keep for the address.
    url: Of the orchestrator; the same after each start.
    """

    folder: Path
    environment: Mapping[str, str]
    port: int = field(default_factory=free_port)
    _running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def file(self) -> str:
        return f"sqlite:///{self.folder}/ledger.db"

    def orchestrate(self, *options: str) -> subprocess.Popen[bytes]:
        """Start the orchestrator, and wait until it serves."""
        before = self.log("orchestrator").count("planrun orchestrator: ")
        listen = f"127.0.0.1:{self.port}"
        process = self.start("orchestrator", "--url", self.file, "--listen", listen, *options)
        until = time.monotonic() + 60
        while self.log("orchestrator").count("planrun orchestrator: ") == before:
            assert process.poll() is None, self.log("orchestrator")
            assert time.monotonic() < until, "it does not start"
            time.sleep(0.02)
        return process

    def work(self, *options: str) -> subprocess.Popen[bytes]:
        """Start a worker. It may still be on its way on return."""
        return self.start("worker", "film_jobs", "--url", self.url, *options)

    def start(self, verb: str, *tokens: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{verb}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "planrun.cli", verb, *tokens],
                cwd=self.folder,
                env=dict(self.environment),
                stdout=log,
                stderr=log,
            )
        self._running.append(process)
        return process

    def log(self, verb: str) -> str:
        """What all processes of that verb have printed."""
        path = self.folder / f"{verb}.log"
        return path.read_text() if path.exists() else ""

    def close(self) -> None:
        """Workers first: they hand back what they have."""
        for process in sorted(self._running, key=lambda process: "orchestrator" in str(process.args)):
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
                process.wait(30)


@contextmanager
def opened(folder: Path, environment: Mapping[str, str]) -> Iterator[FleetOfOneBox]:
    """A fleet without anything started. All that was started is ended for certain."""
    fleet = FleetOfOneBox(folder, environment)
    try:
        yield fleet
    finally:
        fleet.close()
