"""One job in shell, Node and C, run by real workers: what holds for Python holds for them."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from planrun.core.life import Outcome, Reason, State
from planrun.core.messages import AttemptRow
from tests.lab import Lab, WorkerProcess, read_proc

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

LANGUAGES = Path(__file__).parent / "languages"
LONG_LEASE_S = 60


@pytest.fixture(
    params=[
        "in-shell",
        pytest.param("in-node", marks=pytest.mark.needs("node")),
        pytest.param("in-c", marks=pytest.mark.needs("cc")),
    ]
)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(kind: str, tmp_path: Path) -> Path:
    """The job module and its programs, built where they have to be."""
    folder = tmp_path / "languages"
    shutil.copytree(LANGUAGES, folder)
    if kind == "in-c":
        subprocess.run(["cc", "-o", folder / "steps", folder / "steps.c"], check=True)
    return folder


def start_worker(lab: Lab, folder: Path, **options: Any) -> WorkerProcess:
    return lab.start_worker(jobs=["language_jobs"], import_path=[str(folder)], **options)


async def submit(lab: Lab, kind: str, *, steps: int = 1, step_s: float = 0.05, end: str = "", **fields: Any) -> str:
    return await lab.submit(kind, {"steps": steps, "step_s": step_s, "end": end}, **fields)


async def test_it_reports_progress_leaves_checkpoints_and_answers(lab: Lab, kind: str, folder: Path) -> None:
    start_worker(lab, folder, lease_s=1)
    job_id = await submit(lab, kind, steps=20)

    async def half_way() -> bool:
        row = await lab.job(job_id)
        return 0 < (row.fraction or 0) < 1 and (row.message or "").startswith("step ") and row.checkpoint is not None

    await lab.until(half_way, "progress and a checkpoint are known to everyone", every_s=0.05)
    [row] = await lab.ended(job_id)
    result = await lab.result(job_id)

    assert row.state is State.FINISHED
    assert result.value == {"began": 0, "done": 20}
    assert [output.name for output in result.outputs] == ["count.txt"]
    assert result.outputs[0].key.endswith("/count.txt")
    assert (lab.place.store / result.outputs[0].key).read_text().strip() == "20"
    await lab.check(job_id)


async def test_it_goes_on_from_its_checkpoint_after_a_deploy(lab: Lab, kind: str, folder: Path) -> None:
    first = start_worker(lab, folder, lease_s=LONG_LEASE_S)
    job_id = await submit(lab, kind, steps=20, step_s=0.1)

    async def has_left_one() -> bool:
        return (await lab.job(job_id)).checkpoint is not None

    await lab.until(has_left_one, "a checkpoint is left")
    first.signal(signal.SIGTERM)
    assert await asyncio.to_thread(first.wait) == 0
    start_worker(lab, folder, lease_s=LONG_LEASE_S)
    [row] = await lab.ended(job_id)

    value = (await lab.result(job_id)).value
    assert value["done"] == 20
    assert value["began"] > 0
    assert (row.attempt, row.failures, row.losses) == (2, 0, 0)
    assert [attempt.outcome for attempt in await lab.attempts(job_id)] == [Outcome.RELEASED, Outcome.SUCCESS]


async def first_end(lab: Lab, job_id: str) -> AttemptRow:
    async def ended() -> AttemptRow | None:
        return next((row for row in await lab.attempts(job_id) if row.outcome is not None), None)

    return await lab.until(ended, "the first attempt has ended")


async def test_it_fails_for_good_by_a_line_and_by_its_exit_code(lab: Lab, kind: str, folder: Path) -> None:
    start_worker(lab, folder, lease_s=LONG_LEASE_S, slots=2)
    by_line, by_code = await submit(lab, kind, end="line-permanent"), await submit(lab, kind, end="exit-10")
    rows = await lab.ended(by_line, by_code)
    errors = [(await lab.result(job_id)).error for job_id in (by_line, by_code)]

    assert [(row.state, row.reason, row.attempt) for row in rows] == [(State.FAILED, Reason.PERMANENT, 1)] * 2
    assert [(error.message, error.code) for error in errors if error] == [
        ("it was asked to", "as-asked"),
        ("the command exited with code 10 (permanent)", "exit"),
    ]
    assert all(error.tail.endswith("last words") for error in errors if error)


async def test_anything_else_is_a_bad_moment(lab: Lab, kind: str, folder: Path) -> None:
    expected = {
        "line-transient": "it was asked to",
        "exit-11": "exited with code 11 (transient)",
        "exit-3": "exited with code 3",
        "signal": "killed by SIGSEGV",
    }
    start_worker(lab, folder, lease_s=LONG_LEASE_S, slots=2)
    job_ids = [await submit(lab, kind, end=end, max_attempts=1) for end in expected]
    rows = await lab.ended(*job_ids)
    errors = [(await lab.result(job_id)).error for job_id in job_ids]

    assert [row.reason for row in rows] == [Reason.EXHAUSTED] * 4
    assert [(await first_end(lab, job_id)).outcome for job_id in job_ids] == [Outcome.TRANSIENT] * 4
    assert [words in error.message for words, error in zip(expected.values(), errors, strict=True) if error] == [
        True
    ] * 4


async def test_a_broken_machine_ends_its_worker(lab: Lab, kind: str, folder: Path) -> None:
    worker = start_worker(lab, folder, lease_s=LONG_LEASE_S)
    job_id = await submit(lab, kind, end="line-fatal")

    assert await asyncio.to_thread(worker.wait) == 70
    assert (await first_end(lab, job_id)).outcome is Outcome.FATAL
    assert (await lab.job(job_id)).state is State.QUEUED


@pytest.mark.parametrize("level", ["full", "group"])
async def test_canceled_it_is_dead_with_all_that_it_started(lab: Lab, kind: str, folder: Path, level: str) -> None:
    """One of its children has left its session."""
    start_worker(lab, folder, lease_s=LONG_LEASE_S, isolation=level)
    job_id = await submit(lab, kind, end="brood")

    async def family() -> list[int]:
        pids = [pid for pid in lab.job_processes() if b"planrun.jobs.runner" not in read_proc(pid, "cmdline")]
        return pids if len(pids) >= 3 else []

    await lab.until(family, "the command and its children live")
    await lab.cancel(job_id)

    async def dead() -> bool:
        return not (await lab.job(job_id)).stopping

    await lab.until(dead, "it is stopped", timeout_s=5)
    assert lab.job_processes() == []
    assert (await lab.job(job_id)).state is State.CANCELED


async def test_a_command_that_hangs_is_found(lab: Lab) -> None:
    """Waiting for it is no sign of life, also when it has closed its line."""
    start_worker(lab, LANGUAGES, lease_s=LONG_LEASE_S)
    job_id = await lab.submit("hangs", max_attempts=1)
    [row] = await lab.ended(job_id)

    assert row.state is State.FAILED
    assert [attempt.outcome for attempt in await lab.attempts(job_id)] == [Outcome.STALLED]
