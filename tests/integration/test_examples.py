"""The examples are run as they are."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from planrun import AsyncClient
from planrun.core.life import State
from tests.lab import ROOT, Lab, WorkerProcess

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

EXAMPLES = ROOT / "examples"


def start_worker(lab: Lab, folder: Path, module: str) -> WorkerProcess:
    return lab.start_worker(jobs=[module], import_path=[str(folder)], lease_s=60)


def build(folder: Path) -> None:
    subprocess.run(["cc", "-o", folder / "words", folder / "words.c"], check=True)


async def answer(
    lab: Lab, kind: str, *, inputs: dict[str, Path] | None = None, version: str = "v1", **params: Any
) -> Any:
    """Submit as a program does, and wait."""
    async with AsyncClient(lab.url) as client:
        job = await client.submit(
            kind, version=version, inputs={name: str(path) for name, path in (inputs or {}).items()}, params=params
        )
        return await job.wait(timeout_s=30)


@pytest.mark.parametrize(
    ("kind", "module"),
    [
        ("words-sh", "exec_jobs"),
        pytest.param("words-node", "exec_jobs", marks=pytest.mark.needs("node")),
        pytest.param("words-c", "c_jobs", marks=pytest.mark.needs("cc")),
    ],
)
async def test_words_are_counted_in_any_language(lab: Lab, tmp_path: Path, kind: str, module: str) -> None:
    folder = tmp_path / "exec"
    shutil.copytree(EXAMPLES / "exec", folder)
    if module == "c_jobs":
        build(folder)
    (tmp_path / "text").write_text("to be or not to be\n")
    (tmp_path / "empty").touch()
    start_worker(lab, folder, module)
    counted = await answer(lab, kind, inputs={"text": tmp_path / "text"})
    refused = await answer(lab, kind, inputs={"text": tmp_path / "empty"})

    assert counted.value == {"words": 6}
    assert (refused.error.code, refused.error.message) == ("empty", "there is nothing to count")


async def test_an_async_job_reads_its_inputs_at_once(lab: Lab, tmp_path: Path) -> None:
    start_worker(lab, EXAMPLES / "async", "async_jobs")
    for name in "abc":
        (tmp_path / name).write_text(name)
    digests = await answer(lab, "digests", inputs={name: tmp_path / name for name in "abc"})

    assert digests.value == {name: hashlib.sha256(name.encode()).hexdigest() for name in "abc"}


async def test_two_versions_run_side_by_side_until_the_old_one_goes(lab: Lab, tmp_path: Path) -> None:
    """The page on versions: both at once, each caller gets its own; then v1 is retired, and what is left is named."""
    folder, inputs = EXAMPLES / "versions", {"file": EXAMPLES / "versions" / "digest_v1.py"}
    content = inputs["file"].read_bytes()
    both = lab.start_worker(jobs=["digest_v1", "digest_v2"], import_path=[str(folder)], lease_s=60)
    old, new = [await answer(lab, "digest", version=version, inputs=inputs) for version in ("v1", "v2")]
    late = await lab.submit("digest", delay_s=600)
    start_worker(lab, folder, "digest_v2")
    await lab.ready(2)
    both.signal(signal.SIGTERM)
    assert await asyncio.to_thread(both.wait) == 0
    refused = await answer(lab, "digest", version="v3", inputs=inputs)
    async with AsyncClient(lab.url) as client:
        left = {row.version: row for row in await client.kinds()}

    assert old.value == {"digest": hashlib.sha1(content).hexdigest()}
    assert new.value == {"digest": hashlib.sha256(content).hexdigest(), "algorithm": "sha256"}
    assert (left["v1"].queued, left["v1"].live, len(left["v2"].live)) == (1, (), 1)
    assert "digest v1: 1 open job, and no live worker has it" in left["v1"].warning
    assert (refused.error.code, "versions that exist: v1, v2" in refused.error.message) == ("unsupported", True)
    assert (await lab.job(late)).state == State.QUEUED


async def test_a_job_with_checkpoints_goes_on_where_it_was(lab: Lab) -> None:
    first = start_worker(lab, EXAMPLES / "checkpoint", "checkpoint_jobs")
    job_id = await lab.submit("primes", {"below": 1_000_000})

    async def under_way() -> bool:
        return (await lab.job(job_id)).checkpoint is not None

    await lab.until(under_way, "a checkpoint is left")
    first.signal(signal.SIGTERM)
    assert await asyncio.to_thread(first.wait) == 0
    start_worker(lab, EXAMPLES / "checkpoint", "checkpoint_jobs")
    [row] = await lab.ended(job_id)
    value = (await lab.result(job_id)).value

    assert (row.state, row.attempt, value["primes"]) == (State.FINISHED, 2, 78498)
    assert value["began"] > 2


async def test_a_warm_job_finds_its_model_loaded(lab: Lab) -> None:
    start_worker(lab, EXAMPLES / "warm", "warm_jobs")
    english = await answer(lab, "guess", text="The cat is on the mat")
    french = await answer(lab, "guess", text="le chat est assis")

    assert (english.value["language"], french.value["language"]) == ("en", "fr")
    assert english.value["process"] == french.value["process"]
