"""`planrun check` tries out what a fleet consists of, and says per line what is wrong and what to do."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.local.rabbitmq import NEEDS, RabbitMQ
from deploy.local.s3 import BUCKET, Ministack
from planrun.cli.app import run
from planrun.clock import Instant, SystemClock

from .fleet import FleetOfOneBox, opened

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
JOBS = """
from planrun.jobs import JobContext, job

@job("preview")
def preview(j: JobContext):
    return {}
"""
Check = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[Ministack]:
    server = Ministack(tmp_path / "s3")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FleetOfOneBox]:
    (tmp_path / "film_jobs.py").write_text(JOBS)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("PLANRUN_TOKEN", "PLANRUN_BROKER", "PLANRUN_STORE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    with opened(tmp_path, os.environ) as fleet:
        yield fleet


@pytest.fixture
def check(fleet: FleetOfOneBox, capfd: pytest.CaptureFixture[str]) -> Check:
    def call(*tokens: str, url: str = "") -> tuple[int, dict[str, Any]]:
        capfd.readouterr()
        status = run(["check", "--json", "--url", url or fleet.url, *tokens])
        return status, json.loads(capfd.readouterr().out)

    return call


@pytest.fixture
def token(fleet: FleetOfOneBox, capfd: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def make(scope: str) -> str:
        capfd.readouterr()
        run(["token", "create", "--scope", scope, "--name", scope, "--url", fleet.file, "--json"])
        text: str = json.loads(capfd.readouterr().out)["token"]
        return text

    return make


@pytest.mark.needs(NEEDS)
def test_a_worker_finds_out_that_all_is_well_and_what_is_not(
    fleet: FleetOfOneBox,
    check: Check,
    token: Callable[..., str],
    rabbitmq: RabbitMQ,
    s3: Ministack,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PLANRUN_TOKEN", token("work"))
    fleet.environment = {**os.environ, **s3.environment}
    fleet.environment.pop("PLANRUN_TOKEN")
    told = ("--broker", rabbitmq.url, "--broker-prefix", "check", "--store", f"s3://{BUCKET}/planrun")
    fleet.orchestrate(*told)

    status, said = check("film_jobs")
    assert (status, said["problems"]) == (0, [])
    assert said["token"] == {"scopes": ["work"], "namespaces": ["default"]}
    assert said["orchestrator"]["generation"] == 1
    assert said["broker"]["product"].startswith("RabbitMQ 3.")
    assert said["broker"]["round_trip_ms"] >= 0
    assert said["broker"]["returns"] is True
    assert said["results"]["store"].startswith(f"bucket {BUCKET}")
    assert said["locks"] is True
    assert "not tried" not in said
    assert [row for row in rabbitmq.queues() if ".check-" in row[0]] == []

    wrong = rabbitmq.url.replace(":guest@", ":wrong-secret@")
    status, said = check("film_jobs", "--broker", wrong, "--store", "s3://no-such-bucket/planrun")
    broker, store = said["problems"]
    assert status == 1
    assert "Login was refused" in broker
    assert "wrong-secret" not in broker
    assert "create it, or correct the address of the store" in store

    monkeypatch.setenv("PLANRUN_TOKEN", token("submit"))
    assert check("film_jobs")[1]["problems"] == ["this token is not one of a worker: planrun token create --scope work"]
    status, said = check()
    assert (status, said["problems"]) == (0, [])
    assert "scope work" in said["not tried"]
    monkeypatch.setenv("PLANRUN_TOKEN", "f" * 32)
    assert "this token is unknown here" in check()[1]["problems"][0]


@pytest.mark.needs(NEEDS)
def test_an_orchestrators_machine_is_told_what_its_broker_and_its_bucket_lack(
    fleet: FleetOfOneBox, check: Check, rabbitmq: RabbitMQ, s3: Ministack, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    told = ("--broker", rabbitmq.url, "--broker-prefix", "check", "--store", f"s3://{BUCKET}/planrun")

    status, said = check(*told, url=fleet.file)
    assert (status, said["problems"]) == (0, [])
    assert said["store honours"]["creates_once"] is True

    rabbitmq.control("add_user", "poor", "poor")
    rabbitmq.control("set_permissions", "poor", "^check\\.ctl", "", "")
    poor = rabbitmq.url.replace("guest:guest", "poor:poor")
    (problem,) = check("--broker", poor, "--broker-prefix", "check", url=fleet.file)[1]["problems"]
    assert "ACCESS_REFUSED" in problem
    assert "deploy/rabbitmq/accounts.sh" in problem

    rabbitmq.alarm(True)
    try:
        (problem,) = check(*told, url=fleet.file)[1]["problems"]
    finally:
        rabbitmq.alarm(False)
    assert "short of memory or disk" in problem


def test_clocks_that_differ_are_said(
    fleet: FleetOfOneBox, check: Check, token: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANRUN_TOKEN", token("work"))
    fleet.orchestrate()
    now = SystemClock.now

    def late(clock: SystemClock) -> Instant:
        return now(clock)._replace(wall_ms=now(clock).wall_ms - 3_600_000)

    monkeypatch.setattr(SystemClock, "now", late)
    (problem,) = check()[1]["problems"]

    assert "differ by 3600 s: set them by NTP" in problem


def test_an_orchestrator_that_is_not_there_is_one_problem(check: Check) -> None:
    status, said = check(url="http://127.0.0.1:1")

    assert status == 1
    assert len(said["problems"]) == 1
    assert "gives no answer" in said["problems"][0]
