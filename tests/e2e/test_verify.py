"""`planrun verify` as a user has it: a short run, what it leaves alone, and how it ends when it is told to."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from deploy.local.rabbitmq import NEEDS, RabbitMQ
from deploy.local.s3 import Ministack
from planrun import Client, Submit
from planrun.cli.app import run
from planrun.cli.exits import Exit
from planrun.verify.kinds import NAMES
from planrun.verify.plan import Blow
from planrun.verify.report import DONE
from planrun.verify.worker import WHOSE
from planrun.worker.tree import look_at_all
from tests.fleet import Fleet
from tests.lab import read_proc

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


def verify(folder: Path, *tokens: str, **environment: str) -> subprocess.Popen[str]:
    (folder / "tmp").mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-m", "planrun.cli", "verify", *tokens],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder / "tmp"), **environment},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    mark = f"{WHOSE}={process.pid}\0".encode()
    return [found.pid for found in look_at_all() if found.alive and mark in read_proc(found.pid, "environ")]


def left(folder: Path) -> list[str]:
    return [path.name for path in (folder / "tmp").iterdir()]


def test_a_short_run_holds_and_leaves_the_jobs_of_others_alone(tmp_path: Path) -> None:
    with Client(f"sqlite:///{tmp_path}/planrun.db") as client:
        job = client.submit("film", subscribers=["command:touch told"])
        waiting = client.submit("preview", key="k")
        client.cancel(job.id)

        process = verify(tmp_path, "--minutes", "0.25", "--jobs", "15", "--seed", "1", "--json")
        out, err = process.communicate(timeout=100)
        said: dict[str, Any] = json.loads(out)

        assert process.returncode == Exit.FINISHED, f"{out}{err}"
        assert said["ok"], said["wrongs"]
        assert said["count"]["jobs"] == 15
        assert said["count"]["starts"] > 15
        assert said["count"]["results"] == len(NAMES) * said["count"]["ended"]["finished"]
        assert said["count"]["told"] == said["count"]["asked"]
        assert sum(said["done"].values()) >= 3
        assert said["untested"] == ""
        assert [said["count"][what] for what in ("lost", "doubled", "overwritten", "wrong")] == [0, 0, 0, 0]
        assert (client.show(job.id).undelivered, client.show(waiting.id).state) == (1, "queued")
        assert client.counts(namespace=said["namespace"])["running"] == 0
    assert not (tmp_path / "told").exists()
    assert any(text.startswith("messages: ") for text in said["not_tried"])
    assert left(tmp_path) == []


@pytest.mark.anyio
@pytest.mark.needs(NEEDS)
async def test_over_a_broker_and_a_bucket_all_of_it_is_tried(
    tmp_path: Path, rabbitmq: RabbitMQ, ministack: Ministack
) -> None:
    fleet = Fleet(tmp_path, broker=rabbitmq, s3=ministack)
    try:
        fleet.start_orchestrator()
        tokens = ("--minutes", "0.25", "--jobs", "15", "--seed", "1", "--json", "--url", fleet.remote_url)
        process = verify(tmp_path, *tokens, **fleet.environment)
        out, err = await asyncio.to_thread(process.communicate, timeout=100)
        said: dict[str, Any] = json.loads(out)

        assert process.returncode == Exit.FINISHED, f"{out}{err}"
        assert set(said["done"]) == set(Blow)
        never = [DONE[blow] for blow, times in said["done"].items() if not times]
        assert [text.partition(": ")[0] for text in said["not_tried"] if not text.startswith("late files")] == never
        assert said["count"]["messages"] == 15
        assert [said["count"][what] for what in ("lost", "doubled", "overwritten", "wrong")] == [0, 0, 0, 0]
        assert said["found"]["store honours"]["creates_once"]
        assert said["found"]["broker"]["returns"]
        assert not [queue for queue, *_ in rabbitmq.queues() if queue.startswith("verify-")]
        assert left(tmp_path) == []
    finally:
        await fleet.end()


def test_told_to_end_it_takes_everything_with_it(tmp_path: Path) -> None:
    process = verify(tmp_path, "--minutes", "5", "--jobs", "300", "--seed", "3")
    until = time.monotonic() + 60
    with Client(f"sqlite:///{tmp_path}/planrun.db") as client:
        while not client.list(limit=1, state="running").jobs:
            assert time.monotonic() < until
            time.sleep(0.05)
        assert workers_of(process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)

        assert (process.returncode, out) == (Exit.INTERRUPTED, ""), err
        assert "Traceback" not in err
        counts = client.counts()
        assert (counts["queued"], counts["running"]) == (0, 0)
    assert workers_of(process) == []
    assert left(tmp_path) == []


def test_killed_it_leaves_no_worker(tmp_path: Path) -> None:
    process = verify(tmp_path, "--minutes", "5", "--seed", "4")
    until = time.monotonic() + 60
    while len(workers_of(process)) < 3:
        assert time.monotonic() < until
        time.sleep(0.05)
    process.kill()
    process.communicate(timeout=60)

    until = time.monotonic() + 20
    while (workers := workers_of(process)) and time.monotonic() < until:
        time.sleep(0.05)
    for pid in workers:
        os.kill(pid, signal.SIGKILL)
    assert workers == [], "workers go on"


def test_a_namespace_in_use_is_refused_and_so_is_a_span_that_is_none(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with Client(f"sqlite:///{tmp_path}/planrun.db") as client:
        client.submit_many([Submit("preview", namespace="mine")])
    url = ("--url", f"sqlite:///{tmp_path}/planrun.db")

    assert run(["verify", "--namespace", "mine", "--minutes", "0.1", *url]) == Exit.USAGE
    assert "namespace mine has open jobs" in capfd.readouterr().err
    assert run(["verify", "--minutes", "nan", *url]) == Exit.USAGE
    assert "--minutes nan: use 0.1 to 600" in capfd.readouterr().err
