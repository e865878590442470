"""A worker that dies, by proof and by lease, at every isolation level."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.lab import Lab, alive_with_mark

pytestmark = [pytest.mark.anyio, pytest.mark.serial]

LEVELS = ("full", "subreaper", "group")


@pytest.mark.parametrize("level", LEVELS)
async def test_a_killed_worker_is_proven_dead_and_its_job_starts_again_at_once(
    lab: Lab, tmp_path: Path, level: str
) -> None:
    """SIGKILL mid-job: the second attempt starts within 0.3 s, and nothing of the first one lives by then."""
    marks = tmp_path / "marks"
    marks.mkdir()
    first = lab.start_worker(lease_s=1, isolation=level)
    await lab.ready(1)
    job_id = await lab.submit("brood", {"marks": str(marks), "seconds": 60})
    await lab.started(job_id, 1)
    lab.start_worker(lease_s=1, isolation=level)
    await lab.ready(2)

    async def both_live() -> bool:
        return len(list(marks.iterdir())) == 2

    await lab.until(both_live, "grandchildren live")
    killed_at = first.kill()
    second = await lab.started(job_id, 2)
    last_sign = max(float(path.read_text().split()[-1]) for path in marks.glob("*-1-*"))

    assert second.at - killed_at <= 0.3
    assert last_sign < second.at
    assert not [path for path in alive_with_mark(marks) if "-1-" in path.name]


async def test_without_proof_the_lease_alone_brings_the_job_back(lab: Lab) -> None:
    """SIGKILL with the proof switched off: the second attempt starts within lease + 0.3 s, not before."""
    first = lab.start_worker(lease_s=1, proof_of_death=False)
    await lab.ready(1)
    job_id = await lab.submit("nap", {"seconds": 60})
    await lab.started(job_id, 1)
    lab.start_worker(lease_s=1, proof_of_death=False)
    await lab.ready(2)
    killed_at = first.kill()
    second = await lab.started(job_id, 2)

    assert 0.5 <= second.at - killed_at <= 1.3


async def test_sigterm_hands_a_job_back_within_a_second(lab: Lab) -> None:
    """No checkpoint support: the second start follows the SIGTERM within 1 s, and no budget but hand-backs is spent."""
    first = lab.start_worker(lease_s=10)
    await lab.ready(1)
    job_id = await lab.submit("nap", {"seconds": 60})
    await lab.started(job_id, 1)
    lab.start_worker(lease_s=10)
    await lab.ready(2)
    told_at = first.signal(signal.SIGTERM)
    second = await lab.started(job_id, 2)

    row = await lab.job(job_id)
    assert second.at - told_at <= 1.0
    assert (row.failures, row.losses, row.handbacks) == (0, 0, 1)
    assert first.wait() == 0
