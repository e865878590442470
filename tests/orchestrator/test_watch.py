"""Deaths are noticed in milliseconds, and believed only with proof."""

# ruff: noqa: ASYNC110 -- tests look at files and poll with a deadline

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from planrun.clock import SystemClock
from planrun.core.messages import WorkerRow
from planrun.lockfile import WorkerLock
from planrun.orchestrator.sweeper import Sweeper
from planrun.orchestrator.watch import Watch
from tests.orchestrator.fake_ledger import FakeLedger

pytestmark = pytest.mark.anyio


class Body:
    """A process, and beside it the lock that stands for its job trees."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(["sleep", "60"])
        self.lock = WorkerLock.acquire(folder, "w1")
        self.row = WorkerRow(
            incarnation="w1",
            name="w1",
            host="box",
            slots=1,
            pid=self.process.pid,
            lock_file=str(self.lock.path),
            lock_device=self.lock.device,
            lock_inode=self.lock.inode,
        )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


async def buried(ledger: FakeLedger, *, within_s: float) -> bool:
    try:
        async with asyncio.timeout(within_s):
            while "bury w1" not in ledger.asked:
                await asyncio.sleep(0.002)
    except TimeoutError:
        return False
    return True


@pytest.fixture
def watch(ledger: FakeLedger) -> Watch:
    return Watch(Sweeper(ledger.port).bury_if_dead, SystemClock.open_system())


async def test_a_death_leads_to_a_burial_at_once(ledger: FakeLedger, watch: Watch, tmp_path: Path) -> None:
    body = Body(tmp_path)
    watch.follow([body.row])
    body.lock.close()
    body.kill()

    assert await buried(ledger, within_s=1)
    await watch.close()


async def test_the_burial_waits_for_the_job_trees(ledger: FakeLedger, watch: Watch, tmp_path: Path) -> None:
    body = Body(tmp_path)
    watch.follow([body.row])
    body.kill()

    assert not await buried(ledger, within_s=0.1)
    body.lock.close()
    assert await buried(ledger, within_s=1)
    await watch.close()


async def test_a_worker_that_died_before_it_was_followed_is_buried_too(
    ledger: FakeLedger, watch: Watch, tmp_path: Path
) -> None:
    body = Body(tmp_path)
    body.kill()
    watch.follow([body.row])
    body.lock.close()

    assert await buried(ledger, within_s=1)
    await watch.close()


async def test_a_ledger_that_does_not_answer_is_asked_again(ledger: FakeLedger, watch: Watch, tmp_path: Path) -> None:
    body = Body(tmp_path)
    watch.follow([body.row])
    ledger.out_of_order = True
    body.lock.close()
    body.kill()
    assert not await buried(ledger, within_s=0.05)

    ledger.out_of_order = False

    assert await buried(ledger, within_s=1)
    await watch.close()


async def test_who_holds_nothing_any_more_is_not_followed(ledger: FakeLedger, watch: Watch, tmp_path: Path) -> None:
    body = Body(tmp_path)
    watch.follow([body.row])
    watch.follow([])
    body.lock.close()
    body.kill()

    assert not await buried(ledger, within_s=0.1)
    await watch.close()


async def test_a_pid_that_tells_nothing_is_probed_once_and_then_left_to_the_sweeps(
    ledger: FakeLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A living worker in another PID namespace: no such process here."""
    monkeypatch.setattr("planrun.orchestrator.watch.PROBE_FOR_MS", 50)
    asked: list[str] = []

    async def bury_if_dead(holder: WorkerRow) -> bool:
        asked.append(holder.incarnation)
        return False

    watch = Watch(bury_if_dead, SystemClock.open_system())
    body = Body(tmp_path)
    body.kill()
    watch.follow([body.row])
    async with asyncio.timeout(5):
        while watch._probes:
            await asyncio.sleep(0.005)
    probes = len(asked)

    for _ in range(5):
        watch.follow([body.row])
        await asyncio.sleep(0)

    assert probes > 1
    assert len(asked) == probes


async def test_closing_lets_go_of_every_descriptor(watch: Watch, tmp_path: Path) -> None:
    before = set(Path("/proc/self/fd").iterdir())
    body = Body(tmp_path)
    watch.follow([body.row])
    await watch.close()
    body.lock.close()
    body.kill()

    assert set(Path("/proc/self/fd").iterdir()) <= before
