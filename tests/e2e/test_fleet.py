"""A fleet as its users have it: one orchestrator, workers and clients that know an address and nothing else."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from planrun import Client
from planrun.cli.app import run
from planrun.cli.exits import Exit

from .fleet import FleetOfOneBox, opened

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

JOBS = """
import time
from planrun.jobs import JobContext, Permanent, job

@job("preview")
def preview(j: JobContext):
    print("at work", flush=True)
    for n in range(j.params.get("naps", 0)):
        j.progress(n / 1000)
        time.sleep(0.05)
    if j.params.get("bad"):
        raise Permanent("no such filter: foo", code="bad-filter")
    out = j.scratch / "out.mp4"
    out.write_bytes(b"film")
    return {"preview": out, "frames": 9}
"""

Planrun = Callable[..., tuple[int, str, str]]


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FleetOfOneBox]:
    (tmp_path / "film_jobs.py").write_text(JOBS)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PLANRUN_TOKEN", raising=False)
    monkeypatch.chdir(tmp_path)
    with opened(tmp_path, os.environ) as fleet:
        monkeypatch.setenv("PLANRUN_URL", fleet.url)
        yield fleet


@pytest.fixture
def planrun(fleet: FleetOfOneBox, capfd: pytest.CaptureFixture[str]) -> Planrun:
    def call(*tokens: str) -> tuple[int, str, str]:
        capfd.readouterr()
        status = run(tokens)
        out, err = capfd.readouterr()
        return status, out, err

    return call


def test_a_job_goes_in_and_its_answer_comes_back_over_http_alone(fleet: FleetOfOneBox) -> None:
    fleet.orchestrate()
    fleet.work()
    with Client(fleet.url) as client:
        job = client.submit("preview", key="holiday")
        answer = job.wait(timeout_s=60)

        assert answer.value == {"frames": 9}
        assert answer.outputs["preview"].bytes == 4
        assert client.submit("preview", key="holiday").disposition == "answered"


def test_a_second_orchestrator_and_an_embedded_worker_are_refused_and_told_who_is_there(
    fleet: FleetOfOneBox, planrun: Planrun
) -> None:
    owner = fleet.orchestrate()

    second = planrun("orchestrator", "--url", fleet.file, "--listen", "127.0.0.1:0")
    embedded = planrun("worker", "film_jobs", "--url", fleet.file)

    for status, _, err in (second, embedded):
        assert status == Exit.UNREACHABLE
        assert f"process {owner.pid}" in err
        assert len(err.splitlines()) <= 2
    assert planrun("list", "--url", fleet.file)[0] == Exit.FINISHED  # whoever only looks goes on


def test_an_orchestrator_ends_quietly_and_a_job_outlives_its_restart(fleet: FleetOfOneBox, planrun: Planrun) -> None:
    first = fleet.orchestrate()
    fleet.work()
    with Client(fleet.url) as client:
        job = client.submit("preview", params={"naps": 60})
        next(seen for seen in job.stream(timeout_s=60) if seen.job.fraction is not None)

        first.send_signal(signal.SIGTERM)
        assert first.wait(30) == 0
        fleet.orchestrate()

        assert job.wait(timeout_s=60).ok
        assert [row.what for row in job.events()].count("granted") == 1
    assert "Traceback" not in fleet.log("orchestrator") + fleet.log("worker")


def test_every_verb_works_at_an_address_or_says_where_to_do_it(fleet: FleetOfOneBox, planrun: Planrun) -> None:
    fleet.orchestrate()
    fleet.work("--name", "anna", "--allow-input", f"file:{fleet.folder}")
    film = fleet.folder / "holiday.mov"
    film.write_bytes(b"film")

    def done(*tokens: str, says: str = "") -> str:
        status, out, err = planrun(*tokens)
        assert (status, "Traceback" in err) == (Exit.FINISHED, False), (tokens, out, err)
        assert says in out, (tokens, out, err)
        return out

    done("submit", "preview", "--request-id", "one", "--input", f"video={film}", "--wait", "--timeout-s", "60")
    assert planrun("submit", "preview", "--request-id", "two", "bad=1", "--wait")[0] == Exit.FAILED
    done("wait", "one", says="finished")
    done("result", "one", "--json", says='"frames": 9')
    done("show", "one", says="finished")
    done("why", "one", says="finished")
    done("list", says="failed (permanent)")
    done("events", "one", says="granted")
    done("events", "one", "--follow", says="granted")
    done("logs", "one")
    done("logs", "one", "--follow")
    done("pause", "preview", "--why", "maintenance")
    done("pauses", says="maintenance")
    done("retry", "two")
    done("resume", "preview")
    done("kinds", says="preview v1")
    done("workers", says="anna")
    done("top", "--once")
    done("check", says="all is well")
    done("submit", "preview", "--request-id", "long", "naps=1000")
    done("cancel", "long", says="canceled")
    done("drain", "anna", "--force", "--why", "a new disk")
    done("drains", says="a new disk")

    status, _, err = planrun("wait", "nobody-knows-it")
    assert status == Exit.UNKNOWN
    assert fleet.url in err
    for tokens in (["backup", "copy.db"], ["gc"], ["migrate"], ["up", "film_jobs"], ["orchestrator"]):
        status, _, err = planrun(*tokens)
        assert (status, "--url sqlite:///" in err) == (Exit.USAGE, True), (tokens, err)
        assert len(err.splitlines()) <= 2


def test_without_an_orchestrator_every_verb_says_so_at_once(fleet: FleetOfOneBox, planrun: Planrun) -> None:
    for tokens in (["list"], ["worker", "film_jobs"]):
        status, _, err = planrun(*tokens)

        assert status == Exit.UNREACHABLE
        assert fleet.url in err.splitlines()[-1]
        assert "Traceback" not in err
