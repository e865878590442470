"""A full disk: every caller gets a true answer, nothing is half written, and all goes on when space returns."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from planrun.core.kinds import MIB
from planrun.core.names import attempt_prefix, job_id_of, token_of
from tests.lab import Lab
from tests.small_disk import SmallDisk, small_disk
from tests.soak import disk_full, scratch_left
from tests.soak.disk_full import LabOnDisk

pytestmark = [pytest.mark.anyio, pytest.mark.serial, pytest.mark.needs_root]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", megabytes=8) as disk:
        yield disk


@pytest.fixture
async def on_disk(tmp_path: Path, disk: SmallDisk) -> AsyncIterator[LabOnDisk]:
    lab = LabOnDisk(tmp_path, disk=disk)
    yield lab
    await lab.close()


async def test_64_callers_on_a_full_disk_get_true_answers(on_disk: LabOnDisk) -> None:
    """What was answered is there after opening anew; what was not may be repeated, and is there once."""
    seen = await disk_full.crowd(on_disk, callers=64, rounds=10)

    assert seen.refused > 0
    assert seen.answered > 0
    assert seen.missing == []
    assert seen.doubled == []
    assert seen.integrity == "ok"


async def test_jobs_that_run_while_the_disk_is_full_keep_their_claim(on_disk: LabOnDisk) -> None:
    """C32: they end while nothing can be written, and settle when space returns; the log stays short."""
    seen = await disk_full.hold(on_disk, full_s=8, lease_s=2.0)

    assert seen.refused == seen.asked > 0
    assert seen.states == ["finished"] * 5
    assert (seen.starts, seen.losses) == (5, 0)
    assert seen.log_lines < 100
    await on_disk.check(*seen.job_ids)


async def test_a_worker_without_room_leaves_the_jobs_to_others_until_it_has_room(lab: Lab, tmp_path: Path) -> None:
    """C39: nothing is charged to the jobs that it did not take."""
    with small_disk(tmp_path / "small", megabytes=100) as disk:
        disk.fill(leave_bytes=40 * MIB)  # the kind declares outputs of up to 64 MiB
        narrow = lab.start_worker(name="narrow", scratch=str(disk.folder / "scratch"), disk_free_bytes_min=0)
        await lab.ready(1)
        jobs = [await lab.submit("render", {"bytes": 100_000, "seconds": 0.2}) for _ in range(10)]

        async def has_said_so() -> bool:
            return "leaves job" in narrow.text

        await lab.until(has_said_so, "the worker without room says so")
        wide = lab.start_worker(name="wide", slots=2, disk_free_bytes_min=0)
        rows = await lab.ended(*jobs)
        by = {attempt.worker for job_id in jobs for attempt in await lab.attempts(job_id)}

        assert {row.state for row in rows} == {"finished"}
        assert by == {"wide"}
        assert [row.failures for row in rows] == [0] * 10

        wide.kill()
        disk.empty()
        late = await lab.submit("render", {"bytes": 100_000, "seconds": 0.1})
        await lab.ended(late)
        assert [attempt.worker for attempt in await lab.attempts(late)] == ["narrow"]
        await lab.check(*jobs, late)
        narrow.kill()


@pytest.mark.timeout(120)
async def test_whatever_dies_leaves_no_file_behind_while_the_worker_goes_on(lab: Lab) -> None:
    """C41: the worker, the job, or both are killed in the middle of a render."""
    await scratch_left.rounds(lab, count=3)


async def test_files_that_lie_where_an_attempt_will_write_are_not_its_result(lab: Lab) -> None:
    """C44: scratch starts empty and the store has what this attempt wrote, whatever lay there before."""
    token = token_of(1, 1)
    job_id = job_id_of("default", "foretold")
    prefix = attempt_prefix("default", job_id, 1, token)
    stale = b"stale"
    for folder in (
        lab.place.scratch / f"{token:x}" / "scratch",
        lab.place.store / prefix,
        lab.place.store / ".staging" / prefix,
    ):
        folder.mkdir(parents=True)
        (folder / "out.bin").write_bytes(stale)
    lab.start_worker()
    await lab.ready(1)
    assert await lab.submit("render", {"bytes": 1_000, "seconds": 0.1}, request_id="foretold") == job_id
    await lab.ended(job_id)

    result = await lab.result(job_id)
    assert (result.token, result.outputs[0].bytes) == (token, 1_000)
    await lab.check(job_id)
