"""An operator restores a fleet's ledger from a backup: refused, then recovered, and nobody gets a second answer."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from planrun import Client
from planrun.cli.app import run
from planrun.cli.exits import Exit

from .fleet import FleetOfOneBox, opened
from .test_fleet import JOBS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FleetOfOneBox]:
    (tmp_path / "film_jobs.py").write_text(JOBS)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PLANRUN_TOKEN", raising=False)
    monkeypatch.chdir(tmp_path)
    with opened(tmp_path, os.environ) as fleet:
        yield fleet


def test_a_restored_ledger_is_refused_and_recovered_with_every_answer_as_it_was(fleet: FleetOfOneBox) -> None:
    owner = fleet.orchestrate()
    worker = fleet.work()
    with Client(fleet.url) as client:
        open_then = client.submit("preview", key="first", params={"naps": 20}, request_id="first")
        assert run(["backup", "copy.db", "--url", fleet.file]) == Exit.FINISHED
        unknown_then = client.submit("preview", key="second", request_id="second")
        before = [job.wait(timeout_s=60).as_dict() for job in (open_then, unknown_then)]
    files = sorted((fleet.folder / "ledger.db.store").rglob("out.mp4"))
    owner.kill()
    owner.wait(30)
    for file in fleet.folder.glob("ledger.db-*"):
        file.unlink()
    shutil.copy(fleet.folder / "copy.db", fleet.folder / "ledger.db")

    refused = fleet.start("orchestrator", "--url", fleet.file, "--listen", f"127.0.0.1:{fleet.port}")
    assert refused.wait(60) == Exit.UNREACHABLE
    [said] = [line for line in fleet.log("orchestrator").splitlines() if "--recover" in line]
    assert "older copy" in said

    fleet.orchestrate("--recover")
    with Client(fleet.url) as client:
        assert [client.result(job).as_dict() for job in ("first", "second")] == before
        assert client.submit("preview", key="second").disposition == "answered"
        again = client.submit("preview", key="third").wait(timeout_s=60)  # the same worker goes on
        assert again.ok
    assert worker.poll() is None
    assert set(files) <= set((fleet.folder / "ledger.db.store").rglob("out.mp4"))
    assert run(["check", "--url", fleet.file]) == Exit.FINISHED
    assert "Traceback" not in fleet.log("orchestrator") + fleet.log("worker")
