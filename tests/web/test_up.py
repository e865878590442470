"""`planrun up` as a caller over HTTP meets it: real processes, real sockets."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from planrun.cli.app import run
from planrun.cli.exits import Exit
from planrun.cli.up import _of_worker

JOBS = """
import time
from pathlib import Path
from planrun.jobs import JobContext, job

@job("preview")
def preview(j: JobContext):
    print("at work", flush=True)
    for n in range(j.params.get("naps", 0)):
        time.sleep(0.05)
    out = j.scratch / "out.mp4"
    out.write_bytes(b"film")
    return {"preview": out, "frames": 9}
"""
AT = re.compile(r"HTTP API at http://127\.0\.0\.1:(\d+)/")


@dataclass
class Up:
    """A `planrun up` in a process of its own."""

    process: subprocess.Popen[str]
    port: int

    def ask(self, method: str, path: str, body: Any = None, *, timeout_s: float = 30) -> tuple[int, Any]:
        """Status, and the body, read as JSON if it is that."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            sent = None if body is None else json.dumps(body)
            connection.request(method, path, sent, {"content-type": "application/json"} if sent else {})
            reply = connection.getresponse()
            content = reply.read()
        finally:
            connection.close()
        is_json = reply.headers.get_content_subtype().endswith("json")
        return reply.status, json.loads(content) if is_json else content

    def stop(self) -> tuple[int, float]:
        """SIGTERM. The exit code, and how many seconds it took."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30), time.monotonic() - began


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "film_jobs.py").write_text(JOBS)
    monkeypatch.setenv("PLANRUN_URL", f"sqlite:///{tmp_path}/ledger.db")
    monkeypatch.delenv("PLANRUN_TOKEN", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@contextmanager
def started(*tokens: str, listen: str = "127.0.0.1:0") -> Iterator[Up]:
    command = [sys.executable, "-m", "planrun.cli", "up", "film_jobs", "--listen", listen, *tokens]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    first = process.stderr.readline()
    reading = threading.Thread(target=process.stderr.read)
    reading.start()
    try:
        found = AT.search(first)
        assert found is not None, first
        up = Up(process, int(found[1]))
        eventually(lambda: up.ask("GET", "/v1/workers")[1]["workers"])
        yield up
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(timeout=30)
        reading.join(30)
        process.stderr.close()


def eventually(ask: Callable[[], Any], *, within_s: float = 30) -> Any:
    """The first answer that is true."""
    until = time.monotonic() + within_s
    while not (answer := ask()):
        assert time.monotonic() < until, "it never happened"
        time.sleep(0.05)
    return answer


def opened(up: Up, path: str, *, header: str = "accept: */*") -> socket.socket:
    """A request that is sent and not answered yet."""
    connection = socket.create_connection(("127.0.0.1", up.port), timeout=30)
    connection.sendall(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{header}\r\nconnection: close\r\n\r\n".encode())
    return connection


def read_all(connection: socket.socket) -> bytes:
    content = b""
    with connection, suppress(ConnectionError):
        while chunk := connection.recv(65536):
            content += chunk
    return content


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_job_goes_from_submit_to_file_over_http(folder: Path) -> None:
    (folder / "in.mov").write_bytes(b"raw")
    with started() as up:
        body = {"kind": "preview", "inputs": {"upload": str(folder / "in.mov")}, "request_id": "r1"}
        status, submitted = up.ask("POST", "/v1/jobs", body)
        _, answer = up.ask("GET", "/v1/jobs/r1/wait?timeout_s=60", timeout_s=70)
        stream = read_all(opened(up, f"/v1/jobs/{submitted['job_id']}/stream"))

        assert (status, submitted["disposition"]) == (201, "new")
        assert (answer["state"], answer["value"]) == ("finished", {"frames": 9})
        assert up.ask("GET", answer["outputs"]["preview"]["href"]) == (200, b"film")
        assert up.ask("GET", "/v1/jobs/r1/logs") == (200, b"at work\n")
        assert b"event: end" in stream
        assert up.stop()[0] == Exit.FINISHED


def test_a_stream_is_read_while_the_job_runs_and_goes_on_where_it_broke_off(folder: Path) -> None:
    with started() as up:
        _, job = up.ask("POST", "/v1/jobs", {"kind": "preview", "params": {"naps": 2000}})
        path = f"/v1/jobs/{job['job_id']}/stream"
        first = b""
        with opened(up, path) as stream:
            while b'"what":"granted"' not in first:
                first += stream.recv(65536)
        last_id = re.findall(rb"^id: (\d+)$", first, re.MULTILINE)[-1].decode()
        again = opened(up, path, header=f"Last-Event-ID: {last_id}")
        up.ask("POST", f"/v1/jobs/{job['job_id']}/cancel", {"who": "ann"})
        rest = read_all(again)

        assert b"event: end" not in first
        assert b'"what":"submitted"' not in rest
        assert b'"what":"canceled"' in rest
        assert b"event: end" in rest


def test_who_sends_far_too_much_reads_why_it_was_refused(folder: Path) -> None:
    """A server that closes too early resets the connection, and nobody reads its answer."""
    with started() as up:
        body = {"kind": "preview", "params": {"x": "a" * 20_000_000}}
        refusals = [up.ask("POST", path, body) for path in ("/v1/jobs", "/v1/nowhere", "/v1/jobs/r1")]

        assert [status for status, _ in refusals] == [413, 404, 405]
        assert "pass large data as an input file" in refusals[0][1]["detail"]


def test_sigterm_ends_open_streams_and_long_polls_at_once(folder: Path) -> None:
    """An open stream would keep the server alive for ever."""
    with started() as up:
        _, job = up.ask("POST", "/v1/jobs", {"kind": "preview", "delay_s": 3600})
        streams = [opened(up, f"/v1/jobs/{job['job_id']}/stream") for _ in range(10)]
        polls = [opened(up, f"/v1/jobs/{job['job_id']}/wait?timeout_s=600") for _ in range(10)]
        for stream in streams:
            assert stream.recv(100)
        up.ask("GET", "/v1/health")
        code, took_s = up.stop()

        assert all(b"event: history" in read_all(stream) for stream in streams)
        assert all(b'"type":"stopping"' in read_all(poll) for poll in polls)
        assert code == Exit.FINISHED
        assert took_s < 10


@pytest.mark.serial
def test_a_hundred_open_long_polls_cost_next_to_nothing(folder: Path) -> None:
    with started() as up:
        _, reply = up.ask("POST", "/v1/bulk", {"jobs": [{"kind": "preview", "delay_s": 3600}] * 100})
        polls = [opened(up, f"/v1/jobs/{job['job_id']}/wait?timeout_s=600") for job in reply["jobs"]]
        up.ask("GET", "/v1/health")
        before_s, began = cpu_s(up.process.pid), time.monotonic()
        idle = threading.Event()
        idle.wait(5)
        share = (cpu_s(up.process.pid) - before_s) / (time.monotonic() - began)
        for poll in polls:
            poll.close()

        assert share < 0.05


def test_the_api_goes_on_while_the_worker_is_started_again(folder: Path) -> None:
    with started() as up:
        [worker] = up.ask("GET", "/v1/workers")[1]["workers"]
        _, job = up.ask("POST", "/v1/jobs", {"kind": "preview", "params": {"naps": 20}})
        poll = opened(up, f"/v1/jobs/{job['job_id']}/wait?timeout_s=60")
        child = int(worker["name"].rpartition("-")[2])
        os.kill(child, signal.SIGKILL)
        content = b""
        while b'"state"' not in content:
            content += poll.recv(65536)
        poll.close()

        assert b'"state":"finished"' in content


def test_a_port_that_is_taken_is_said_before_anything_starts(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        status = run(["up", "film_jobs", "--listen", listen])
    err = capfd.readouterr().err

    assert status == Exit.USAGE
    assert listen in err and "--no-http" in err
    assert len(err.splitlines()) <= 2


def test_without_its_packages_it_says_in_one_line_how_to_get_the_api(folder: Path) -> None:
    """The extra is not for everybody: the worker runs all the same."""
    code = (
        "import sys; sys.modules['starlette'] = sys.modules['uvicorn'] = None\n"
        "from planrun.cli import up\nfrom planrun.cli.listening import ListenFlags\n"
        "print(up._open_api('sqlite:///x.db', ListenFlags()))\n"
        "try: up._open_api('sqlite:///x.db', ListenFlags(listen='127.0.0.1:0'))\n"
        "except up.Invalid as error: print('refused', error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout.splitlines()[0] == "None"
    assert done.stdout.splitlines()[1].startswith("refused ") and "planrun[web]" in done.stdout
    assert len(done.stderr.splitlines()) == 1 and "pip install 'planrun[web]'" in done.stderr


def test_the_worker_is_started_without_what_only_up_knows() -> None:
    given = ["jobs", "--listen", "127.0.0.1:1", "--slots", "2", "--no-http", "--listen=[::1]:1", "--", "--listen"]

    assert _of_worker(given) == ["jobs", "--slots", "2", "--", "--listen"]
