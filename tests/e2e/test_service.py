"""Worker and orchestrator under a service manager: a socket of the test's own stands in for systemd's."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from planrun import Client

from .fleet import free_port

pytestmark = pytest.mark.slow
JOBS = """
from planrun.jobs import JobContext, job

@job("preview")
def preview(j: JobContext):
    return {"frames": 9}
"""
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def overseer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind("notify")
        heard.settimeout(30)
        yield heard


@pytest.fixture
def start(tmp_path: Path, overseer: socket.socket) -> Iterator[Start]:
    (tmp_path / "film_jobs.py").write_text(JOBS)
    running: list[subprocess.Popen[bytes]] = []
    told = {"NOTIFY_SOCKET": "notify", "WATCHDOG_USEC": "400000"}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PLANRUN_")} | told

    def run(*tokens: str) -> subprocess.Popen[bytes]:
        with (tmp_path / "log").open("ab") as log:
            running.append(
                subprocess.Popen(
                    [sys.executable, "-m", "planrun.cli", *tokens], env=environment, stdout=log, stderr=log
                )
            )
        return running[-1]

    yield run
    for process in running:
        process.kill()
        process.wait(10)


def until(overseer: socket.socket, word: str) -> None:
    while overseer.recv(100).decode() != word:
        pass


@pytest.mark.parametrize("verb", ["worker", "orchestrator"])
def test_it_says_ready_feeds_the_watchdog_and_says_that_it_ends(
    verb: str, overseer: socket.socket, start: Start
) -> None:
    tokens = ("film_jobs",) if verb == "worker" else ("--listen", f"127.0.0.1:{free_port()}")
    process = start(verb, *tokens)

    assert overseer.recv(100) == b"READY=1"
    for _ in range(3):
        assert overseer.recv(100) == b"WATCHDOG=1"
    process.send_signal(signal.SIGTERM)
    until(overseer, "STOPPING=1")

    assert process.wait(30) == 0, Path("log").read_text()


def test_a_worker_that_is_stuck_on_its_way_to_a_job_lets_the_watchdog_starve(
    overseer: socket.socket, start: Start
) -> None:
    """Here a health probe that takes long; for a real one the watchdog's minutes are enough."""
    start("worker", "film_jobs", "--health", "sleep 2")
    until(overseer, "READY=1")
    with Client("sqlite:///planrun.db") as client:
        job = client.submit("preview", namespace="default")
        deadline = time.monotonic() + 30
        while "is stuck" not in Path("log").read_text():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert job.wait(timeout_s=60).state == "finished"
    until(overseer, "WATCHDOG=1")
