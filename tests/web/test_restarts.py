"""Everything is killed and started again under people who wait; each of them gets the true answer."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from planrun.cli.exits import Exit
from tests.web.test_up import Up, eventually, folder, started

__all__ = ["folder"]

JOBS = """
import time
from pathlib import Path
from planrun.jobs import JobContext, Permanent, job

@job("preview")
def preview(j: JobContext):
    Path(j.params["began"]).touch()
    while not Path(j.params["go"]).exists():
        time.sleep(0.02)
    if j.params["n"] == 0:
        raise Permanent("no such filter")
    return {"n": j.params["n"], "attempt": j.attempt}
"""
EXIT = {"finished": Exit.FINISHED, "failed": Exit.FAILED, "canceled": Exit.CANCELED}


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_c61_twenty_waits_and_twenty_long_polls_outlive_a_restart_of_everything(folder: Path) -> None:
    """Four jobs, of which one fails and one is canceled by then; `up` and its worker are killed, and started again."""
    (folder / "film_jobs.py").write_text(JOBS)
    go = folder / "go"
    with started("--slots", "3") as up, ThreadPoolExecutor(40) as pool:
        jobs = [submitted(up, folder, n, go) for n in range(4)]
        eventually(lambda: len(list(folder.glob("began-*"))) == 3)
        waits = [pool.submit(answer_of_wait, job) for job in jobs for _ in range(5)]
        polls = [pool.submit(answer_of_polls, up.port, job) for job in jobs for _ in range(5)]
        eventually(lambda: len(waiting_processes(jobs)) == 20, within_s=60)
        kill_everything(up)
        with started("--slots", "3", listen=f"127.0.0.1:{up.port}") as again:
            assert again.ask("POST", f"/v1/jobs/{jobs[3]}/cancel", {"who": "ann"})[0] == 200
            go.touch()
            true = [settled(again, job) for job in jobs]
            waited, polled = ([future.result(90) for future in futures] for futures in (waits, polls))

    assert [answer["state"] for answer in true] == ["failed", "finished", "finished", "canceled"]
    assert [answer["value"] for answer in true[1:3]] == [{"n": n, "attempt": 2} for n in (1, 2)]
    for n, answer in enumerate(true):
        mine = slice(5 * n, 5 * n + 5)
        assert polled[mine] == [answer] * 5
        assert [(code, found["state"], found["value"]) for code, found in waited[mine]] == [
            (EXIT[answer["state"]], answer["state"], answer["value"])
        ] * 5


def submitted(up: Up, folder: Path, n: int, go: Path) -> str:
    params = {"n": n, "began": str(folder / f"began-{n}"), "go": str(go)}
    job_id: str = up.ask("POST", "/v1/jobs", {"kind": "preview", "params": params})[1]["job_id"]
    return job_id


def settled(up: Up, job: str) -> Any:
    status, answer = up.ask("GET", f"/v1/jobs/{job}/wait?timeout_s=60", timeout_s=70)
    assert status == 200, answer
    return answer


def answer_of_wait(job: str) -> tuple[int, Any]:
    """Exit code and document of `planrun wait` in a process of its own."""
    command = [sys.executable, "-m", "planrun.cli", "wait", job, "--json", "--timeout-s", "120"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=150)
    return done.returncode, json.loads(done.stdout)


def answer_of_polls(port: int, job: str) -> Any:
    """Poll as a client does that asks again when the connection breaks."""
    up = Up(process=None, port=port)  # type: ignore[arg-type]
    patience = threading.Event()
    for _ in range(600):
        try:
            status, answer = up.ask("GET", f"/v1/jobs/{job}/wait?timeout_s=60", timeout_s=70)
        except (OSError, http.client.HTTPException):
            patience.wait(0.1)
            continue
        if status == 200 and "state" in answer:
            return answer
    raise AssertionError("no answer")


def waiting_processes(jobs: list[str]) -> list[Path]:
    """Those `planrun wait` that have the ledger open by now."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "cmdline").read_text().split("\0")
            files = [link.readlink().name for link in (process / "fd").iterdir()]
            if "wait" in words and not set(jobs).isdisjoint(words) and "ledger.db" in files:
                found.append(process)
    return found


def kill_everything(up: Up) -> None:
    """`up` first, so that it does not start its worker again."""
    workers = up.ask("GET", "/v1/workers")[1]["workers"]
    up.process.kill()
    up.process.wait(10)
    for worker in workers:
        with suppress(ProcessLookupError):
            os.kill(int(worker["name"].rpartition("-")[2]), signal.SIGKILL)
