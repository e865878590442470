"""Results in a bucket, as a user has them: from `planrun up --store s3://…` to a file in a folder."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from deploy.local.s3 import BUCKET, Ministack
from planrun.storage.s3 import S3Store
from tests.e2e.fleet import FleetOfOneBox, opened

JOBS = """
import os, time
from pathlib import Path
from planrun.jobs import JobContext, job

@job("film")
def film(j: JobContext):
    with open(j.params["starts"], "a") as starts:
        starts.write("started\\n")
    while "gate" in j.params and not Path(j.params["gate"]).exists():
        time.sleep(0.02)
    out = j.scratch / "out.mp4"
    out.write_bytes(bytes(j.params.get("fill", 1) for _ in range(1000)) * j.params.get("kilobytes", 1))
    return {"film": out}
"""
ADDRESS = f"s3://{BUCKET}/here/planrun"


@pytest.fixture
def server(ministack: Ministack) -> Ministack:
    return ministack


class Box:
    """A folder, a bucket's address in the environment, and the commands in it."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.environment = environment
        self.starts = folder / "starts"
        self._up: subprocess.Popen[bytes] | None = None

    def run(self, *tokens: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "planrun.cli", *tokens]
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=60, check=False
        )

    def answer(self, *tokens: str) -> Any:
        done = self.run(*tokens, "--json")
        assert done.returncode == 0, done.stderr + done.stdout
        return json.loads(done.stdout)

    def up(self, *tokens: str, **environment: str) -> str:
        """Start it; the address of its API."""
        log = self.folder / "up.log"
        with log.open("wb") as out:
            self._up = subprocess.Popen(
                [sys.executable, "-m", "planrun.cli", "up", "film_jobs", "--listen", "127.0.0.1:0", *tokens],
                cwd=self.folder,
                env=self.environment | environment,
                stdout=out,
                stderr=out,
            )
        eventually(lambda: "takes film" in log.read_text(), log)
        found = re.search(r"HTTP API at (http://[^/]+)/", log.read_text())
        assert found is not None
        return found[1]

    def submit(self, *options: str, **params: Any) -> str:
        words = [f"{name}={value}" for name, value in {"starts": self.starts, **params}.items()]
        job_id: str = self.answer("submit", "film", *words, *options)["job_id"]
        return job_id

    def close(self) -> None:
        if self._up is not None:
            self._up.terminate()
            self._up.wait(30)


def eventually(ask: Callable[[], Any], log: Path, *, within_s: float = 40) -> Any:
    deadline = time.monotonic() + within_s
    while not (found := ask()):
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    return found


@pytest.fixture
def box(tmp_path: Path, server: Ministack) -> Iterator[Box]:
    (tmp_path / "film_jobs.py").write_text(JOBS)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PLANRUN_", "AWS_"))}
    box = Box(tmp_path, environment | server.environment | {"PLANRUN_URL": f"sqlite:///{tmp_path}/ledger.db"})
    yield box
    box.close()


@pytest.fixture
def bucket(server: Ministack, monkeypatch: pytest.MonkeyPatch) -> S3Store:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return S3Store(BUCKET, "here/planrun", endpoint=server.endpoint)


def test_a_result_goes_to_the_bucket_and_comes_back_by_command_and_by_http(box: Box, bucket: S3Store) -> None:
    api = box.up("--store", ADDRESS)
    job = box.submit(fill=7, kilobytes=3)
    film = box.answer("wait", job)["outputs"]["film"]

    saved = box.run("result", job, "--save", "out")

    assert saved.returncode == 0, saved.stderr
    assert (box.folder / "out/film.mp4").read_bytes() == b"\7" * 3000
    assert film["path"] is None
    assert bucket.head(film["key"]) == 3000
    status, link = redirect_of(f"{api}/v1/jobs/{job}/outputs/film")
    assert status == 307
    with urlopen(link, timeout=20) as answer:
        assert answer.read() == b"\7" * 3000
        assert answer.headers["content-type"] == "video/mp4"
    assert not (box.folder / "ledger.db.store").exists()
    assert "SECRET" not in (box.folder / "up.log").read_text().upper()


def redirect_of(url: str) -> tuple[int, str]:
    """Status, and where it leads, of a request that is not followed."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=20)
    try:
        connection.request("GET", parts.path)
        reply = connection.getresponse()
        return reply.status, reply.headers["location"]
    finally:
        connection.close()


def test_a_store_that_is_away_at_upload_time_costs_waiting_and_no_second_start(
    box: Box, server: Ministack, bucket: S3Store
) -> None:
    log = box.folder / "up.log"
    box.up("--store", ADDRESS, "--lease-s", "2")
    gate = box.folder / "gate"
    job = box.submit(gate=str(gate), kilobytes=20_000)
    eventually(box.starts.exists, log)

    server.kill()
    gate.touch()
    eventually(lambda: "waiting for the store" in str(box.answer("show", job)), log)
    asleep = time.monotonic()
    eventually(lambda: time.monotonic() > asleep + 4, log)  # two leases long
    server.start()
    film = box.answer("wait", job)

    assert box.starts.read_text() == "started\n"
    assert film["attempt"] == 1
    assert bucket.head(film["outputs"]["film"]["key"]) == 20_000_000


def test_gc_collects_what_a_killed_worker_had_stored_and_not_the_winner(box: Box, bucket: S3Store) -> None:
    log, trips = box.folder / "up.log", box.folder / "trips"
    trips.mkdir()
    (trips / "settle:before").touch()
    box.up("--store", ADDRESS, PLANRUN_TRIP_DIR=str(trips))
    job = box.submit()
    reached = eventually(lambda: list(trips.glob("settle:before.*.reached")), log)[0]
    os.kill(int(reached.name.split(".")[1]), signal.SIGKILL)
    film = box.answer("wait", job)["outputs"]["film"]
    prefix = f"default/jobs/{job}/"
    assert len(list(bucket.keys(prefix))) == 2

    gone = box.run("gc", "--grace-s", "0")

    assert gone.returncode == 0, gone.stderr
    assert list(bucket.keys(prefix)) == [film["key"]]


def test_a_public_name_is_an_object_of_the_bucket(box: Box, bucket: S3Store) -> None:
    box.up("--store", ADDRESS)
    job = box.submit("--publish", "campaign/master.mp4")
    box.answer("wait", job)

    eventually(lambda: bucket.head("_public/default/campaign/master.mp4"), box.folder / "up.log")
    assert bucket.read("_public/default/campaign/master.mp4") == b"\1" * 1000


def test_all_that_use_a_ledger_find_its_store_and_another_one_is_refused(box: Box) -> None:
    box.up("--store", ADDRESS)

    refused = box.run("worker", "film_jobs", "--store", f"s3://{BUCKET}/elsewhere")

    assert refused.returncode == 2
    assert f"are in {ADDRESS}, not in s3://{BUCKET}/elsewhere" in refused.stderr
    found = box.answer("check")
    assert found["results"]["store"].startswith(f"bucket {BUCKET} at 127.0.0.1:")
    assert found["store honours"] == {"creates_once": True, "lists_at_once": True, "keeps_bytes": True}


def test_a_worker_that_the_store_refuses_says_so_and_takes_nothing(box: Box) -> None:
    refused = box.run("worker", "film_jobs", "--store", "s3://no-such-bucket/x")

    assert refused.returncode not in (0, 2)
    assert "there is no such bucket; create it" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.fixture
def fleet(box: Box) -> Iterator[FleetOfOneBox]:
    """Its client has neither the store's address nor credentials."""
    with opened(box.folder, box.environment | {"XDG_CACHE_HOME": str(box.folder / "cache")}) as fleet:
        box.environment = {name: value for name, value in box.environment.items() if not name.startswith("AWS_")} | {
            "PLANRUN_URL": fleet.url,
            "PLANRUN_TOKEN": "a-token-of-sixteen-or-more",
        }
        fleet.environment = {**fleet.environment, "PLANRUN_TOKEN": box.environment["PLANRUN_TOKEN"]}
        yield fleet


def test_in_a_fleet_the_worker_is_told_the_store_and_a_client_needs_no_credentials(
    box: Box, server: Ministack, fleet: FleetOfOneBox, bucket: S3Store
) -> None:
    """And the store's absence at upload time costs one job no second start there, either."""
    fleet.orchestrate("--store", ADDRESS)
    fleet.work()
    gate, log = box.folder / "gate", box.folder / "worker.log"
    job = box.submit(gate=str(gate), kilobytes=20)
    eventually(box.starts.exists, log)
    server.kill()
    gate.touch()
    eventually(lambda: "waits for the store" in log.read_text(), log)
    server.start()
    film = box.answer("wait", job)["outputs"]["film"]

    saved = box.run("result", job, "--save", "out")

    assert saved.returncode == 0, saved.stderr
    assert (box.folder / "out/film.mp4").read_bytes() == b"\1" * 20_000
    assert box.starts.read_text() == "started\n"
    assert bucket.head(film["key"]) == 20_000
