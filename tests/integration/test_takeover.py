"""A worker that dies, by proof and by lease, at every isolation level."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.lab import Lab, alive_with_mark

pytestmark = pytest.mark.anyio

LONG_LEASE_S = 600  # nothing here waits for its end
LEVELS = ("full", "subreaper", "group")


@pytest.mark.parametrize("level", LEVELS)
async def test_a_killed_worker_is_proven_dead_and_its_job_starts_again_at_once(
    lab: Lab, tmp_path: Path, level: str
) -> None:
    """SIGKILL mid-job: the second attempt waits for no lease, and nothing of the first one lives when it starts."""
    marks = tmp_path / "marks"
    marks.mkdir()
    first = lab.start_worker(lease_s=LONG_LEASE_S, isolation=level)
    await lab.ready(1)
    job_id = await lab.submit("brood", {"marks": str(marks), "seconds": 60})
    await lab.started(job_id, 1)
    lab.start_worker(lease_s=LONG_LEASE_S, isolation=level)
    await lab.ready(2)

    async def both_live() -> bool:
        return len(list(marks.iterdir())) == 2

    await lab.until(both_live, "grandchildren live")
    first.kill()
    second = await lab.started(job_id, 2)
    last_sign = max(float(path.read_text().split()[-1]) for path in marks.glob("*-1-*"))

    assert last_sign < second.at
    assert not [path for path in alive_with_mark(marks) if "-1-" in path.name]


async def test_without_proof_the_lease_alone_brings_the_job_back(lab: Lab) -> None:
    """SIGKILL with the proof switched off: the second attempt starts once the lease has run out, not before."""
    first = lab.start_worker(lease_s=1, proof_of_death=False)
    await lab.ready(1)
    job_id = await lab.submit("nap", {"seconds": 60})
    await lab.started(job_id, 1)
    lab.start_worker(lease_s=1, proof_of_death=False)
    await lab.ready(2)
    killed_at = first.kill()
    second = await lab.started(job_id, 2)

    assert second.at - killed_at >= 0.5  # it was renewed last before the kill, and is a second long


async def test_sigterm_hands_a_job_back_at_once(lab: Lab) -> None:
    """No checkpoint support: the second start waits for no lease, and no budget but hand-backs is spent."""
    first = lab.start_worker(lease_s=LONG_LEASE_S)
    await lab.ready(1)
    job_id = await lab.submit("nap", {"seconds": 60})
    await lab.started(job_id, 1)
    lab.start_worker(lease_s=LONG_LEASE_S)
    await lab.ready(2)
    first.signal(signal.SIGTERM)
    await lab.started(job_id, 2)

    row = await lab.job(job_id)
    assert (row.failures, row.losses, row.handbacks) == (0, 0, 1)
    assert first.wait() == 0
