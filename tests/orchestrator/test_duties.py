"""All duties together, over the real ledger in a file, and over one that fails."""

# ruff: noqa: ASYNC110 -- tests look at files and poll with a deadline

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest

from planrun.clock import SystemClock
from planrun.core.keeping import Keep
from planrun.core.life import Outcome, State
from planrun.core.messages import (
    CancelRequest,
    Granted,
    GrantRequest,
    Handler,
    Lease,
    SettleRequest,
    SubmitRequest,
    WorkerRow,
)
from planrun.core.names import attempt_prefix
from planrun.ledger.contract import Ledger
from planrun.orchestrator.archive import Archive
from planrun.orchestrator.collector import Collector
from planrun.orchestrator.duties import Duties, Loop
from planrun.orchestrator.outbox import Outbox
from planrun.orchestrator.publisher import Publisher
from planrun.orchestrator.retention import Retention
from planrun.orchestrator.sweeper import Sweeper
from planrun.storage.filesystem import FilesystemStore
from planrun.wiring import open_ledger
from tests.orchestrator.fake_ledger import FakeLedger

pytestmark = pytest.mark.anyio

LEASE_MS = 60_000

# Holds the lock of worker "w1" until it is killed.
WORKER = """
import sys
from pathlib import Path
from planrun.lockfile import WorkerLock

lock = WorkerLock.acquire(Path(sys.argv[1]), "w1")
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
async def real(tmp_path: Path) -> AsyncIterator[Ledger]:
    ledger = open_ledger(f"sqlite:///{tmp_path}/ledger.db")
    yield ledger
    await ledger.close()


@pytest.fixture
def worker_process(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(tmp_path / "workers")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.communicate()


def duties_of(
    ledger: Ledger,
    tmp_path: Path,
    *,
    proof_of_death: bool = True,
    incarnation: str = "me",
    collect: bool = True,
    retention: Retention | None = None,
    more: Sequence[Loop] = (),
) -> Duties:
    clock = SystemClock.open_system()
    store = FilesystemStore(tmp_path / "store")
    return Duties(
        ledger,
        clock,
        sweeper=Sweeper(ledger, incarnation=incarnation, proof_of_death=proof_of_death),
        outbox=Outbox(
            ledger,
            clock,
            publisher=Publisher(ledger, store, tmp_path / "public"),
            environment={"PATH": "/usr/bin:/bin"},
        ),
        collector=Collector(ledger, store, scratch=tmp_path / "scratch", gc_grace_s=0) if collect else None,
        retention=retention,
        more=more,
    )


@contextlib.asynccontextmanager
async def on_duty(duties: Duties) -> AsyncIterator[None]:
    stop = asyncio.Event()
    running = asyncio.create_task(duties.run(stop))
    try:
        yield
    finally:
        stop.set()
        async with asyncio.timeout(5):
            await running


async def submit(ledger: Ledger, request_id: str, *, subscribers: tuple[str, ...] = (), delay_s: float = 0) -> str:
    request = SubmitRequest(
        request_id=request_id,
        kind="preview",
        content_hash="c",
        request_hash="r",
        subscribers=subscribers,
        delay_s=delay_s,
    )
    return (await ledger.submit([request]))[0].job_id


async def grant(ledger: Ledger, job_id: str, *, lease_ms: int = LEASE_MS, attempt: int = 1) -> Lease:
    granted = await ledger.grant(
        GrantRequest(job_id=job_id, attempt=attempt, incarnation="w1", nonce=f"n{attempt}", lease_ms=lease_ms)
    )
    assert isinstance(granted, Granted)
    return granted.lease


async def register(ledger: Ledger, lock: Path | None, pid: int) -> None:
    found = None if lock is None else lock.stat()
    await ledger.register(
        WorkerRow(
            incarnation="w1",
            name="w1",
            host="box",
            slots=1,
            handlers=(Handler(kind="preview", version="v1"),),
            pid=pid,
            lock_file="" if lock is None else str(lock),
            lock_device=0 if found is None else found.st_dev,
            lock_inode=0 if found is None else found.st_ino,
        )
    )


async def state_of(ledger: Ledger, job_id: str) -> tuple[State, int]:
    row = await ledger.job(None, job_id)
    assert row is not None
    return row.state, row.attempt


async def wait_for_state(ledger: Ledger, job_id: str, wanted: tuple[State, int], *, within_s: float) -> float:
    """Returns how long it took, in seconds."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    async with asyncio.timeout(within_s):
        while await state_of(ledger, job_id) != wanted:
            await asyncio.sleep(0.005)
    return loop.time() - started


async def test_the_job_of_a_killed_worker_is_back_in_line_within_moments(
    real: Ledger, worker_process: subprocess.Popen[str], tmp_path: Path
) -> None:
    await register(real, tmp_path / "workers/w1", worker_process.pid)
    job_id = await submit(real, "r1")
    async with on_duty(duties_of(real, tmp_path)):
        await grant(real, job_id)
        await asyncio.sleep(0.2)  # the duties see the grant
        assert await state_of(real, job_id) == (State.RUNNING, 1)

        worker_process.kill()
        await wait_for_state(real, job_id, (State.QUEUED, 2), within_s=4)  # before the next sweep would come


async def test_without_proof_the_job_is_back_as_soon_as_its_lease_has_run_out(real: Ledger, tmp_path: Path) -> None:
    await register(real, None, 0)
    job_id = await submit(real, "r1")
    async with on_duty(duties_of(real, tmp_path, proof_of_death=False)):
        await grant(real, job_id, lease_ms=600)
        took_s = await wait_for_state(real, job_id, (State.QUEUED, 2), within_s=4)

    assert took_s > 0.5


async def test_an_answer_goes_out_as_soon_as_the_job_has_ended(real: Ledger, tmp_path: Path) -> None:
    route = f"command:sh -c {shlex.quote(f'cat >> {tmp_path}/answers')}"
    job_id = await submit(real, "r1", subscribers=(route,))
    await register(real, None, 0)
    async with on_duty(duties_of(real, tmp_path)):
        await real.settle(SettleRequest(lease=await grant(real, job_id), outcome=Outcome.SUCCESS, value=42))
        async with asyncio.timeout(4):
            while (await real.due()).next_ms is not None:  # nothing is owed any more
                await asyncio.sleep(0.01)

    answer = json.loads((tmp_path / "answers").read_text())
    assert answer["result"]["job_id"] == job_id
    assert answer["result"]["value"] == 42


async def test_a_hanging_receiver_delays_no_lease(real: Ledger, tmp_path: Path) -> None:
    ended = await submit(real, "r1", subscribers=("command:sleep 8",))
    leased = await submit(real, "r2")
    await register(real, None, 0)
    async with on_duty(duties_of(real, tmp_path, proof_of_death=False)):
        await real.settle(SettleRequest(lease=await grant(real, ended), outcome=Outcome.SUCCESS))
        await grant(real, leased, lease_ms=500)
        await wait_for_state(real, leased, (State.QUEUED, 2), within_s=3)


async def test_files_of_a_dead_workers_attempt_are_collected(
    real: Ledger, worker_process: subprocess.Popen[str], tmp_path: Path
) -> None:
    """C41: scratch and half an upload, without any clean-up by the one that was killed."""
    await register(real, tmp_path / "workers/w1", worker_process.pid)
    job_id = await submit(real, "r1")
    lease = await grant(real, job_id)
    scratch = tmp_path / "scratch" / f"{lease.token:x}"
    staging = tmp_path / "store/.staging" / attempt_prefix("default", job_id, 1, lease.token)
    for folder in (scratch, staging):
        folder.mkdir(parents=True)
        (folder / "half").touch()
    collector = Collector(real, FilesystemStore(tmp_path / "store"), scratch=tmp_path / "scratch", gc_grace_s=0)
    await collector.tick(0)
    assert scratch.exists()
    assert staging.exists()

    worker_process.kill()
    async with on_duty(duties_of(real, tmp_path, collect=False)):
        await wait_for_state(real, job_id, (State.QUEUED, 2), within_s=4)
    await collector.tick(0)

    assert not scratch.exists()
    assert list((tmp_path / "store").iterdir()) == []


async def test_a_result_that_was_kept_long_enough_goes_while_somebody_is_on_duty(real: Ledger, tmp_path: Path) -> None:
    handler = Handler(kind="preview", version="v1", result_ttl_s=0.001)
    await real.register(WorkerRow(incarnation="w1", name="w1", host="box", slots=1, handlers=(handler,)))
    job_id = await submit(real, "r1")
    await real.cancel(CancelRequest(namespace="default", job_id=job_id))
    while not (await real.stale(limit=1)).results:
        await asyncio.sleep(0.001)
    store, archive = FilesystemStore(tmp_path / "store"), Archive(tmp_path / "archive")
    retention = Retention(real, store, archive, keep=Keep(), logs=tmp_path / "logs", believe_clock=True)

    async with on_duty(duties_of(real, tmp_path, retention=retention)), asyncio.timeout(10):
        while await real.result(job_id) is not None:
            await asyncio.sleep(0.005)


async def test_a_delayed_job_joins_the_line_when_its_time_has_come(real: Ledger, tmp_path: Path) -> None:
    job_id = await submit(real, "r1", delay_s=0.3)
    async with on_duty(duties_of(real, tmp_path)), asyncio.timeout(4):
        while (row := await real.job(None, job_id)) is None or row.not_before_ms:
            await asyncio.sleep(0.01)


class ChangingFake(FakeLedger):
    """Says at once that something has changed, as a busy ledger does."""

    async def changed(self, *, timeout_s: float) -> None:
        await asyncio.sleep(0)


async def test_a_ledger_that_fails_is_asked_again_and_the_log_stays_short(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C32: the disk of the ledger is full for a while; every duty goes on when there is room again."""
    monkeypatch.setattr("planrun.orchestrator.duties.AFTER_ERROR_S", 0.01)
    fake = ChangingFake()
    fake.out_of_order = True
    fake.lease_ms = 5
    async with on_duty(duties_of(fake.port, tmp_path)):
        await asyncio.sleep(0.3)
        fake.out_of_order = False
        async with asyncio.timeout(4):
            while fake.lease_ms is not None:
                await asyncio.sleep(0.01)

    told = [record for record in caplog.records if record.name == "planrun.duties"]
    assert sorted(record.getMessage().split(",")[0] for record in told) == ["could not announce", "could not sweep"]
    assert "the disk of the ledger is full" in told[0].getMessage()


async def test_a_bug_in_one_duty_stops_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = ChangingFake()
    fake.lease_ms = 5

    async def buggy(**asked: object) -> list[object]:
        raise KeyError("bug")

    monkeypatch.setattr(fake, "garbage", buggy)
    async with on_duty(duties_of(fake.port, tmp_path)), asyncio.timeout(4):
        while fake.lease_ms is not None or "could not collect" not in caplog.text:
            await asyncio.sleep(0.01)

    record = next(record for record in caplog.records if "could not collect" in record.getMessage())
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None


class QuietFake(FakeLedger):
    """Nothing changes until the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = 0
        self.change = asyncio.Event()

    async def changed(self, *, timeout_s: float) -> None:
        self.waiting += 1
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.change.wait(), timeout_s)


async def test_what_a_worker_waits_for_comes_before_the_rest_that_a_burst_gets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("planrun.orchestrator.duties.BETWEEN_LOOKS_S", 0.1)
    fake, looks = QuietFake(), list[str]()

    def loop(what: str, *, at_once: bool) -> Loop:
        async def tick(now_ms: int) -> int:
            looks.append(what)
            return now_ms + 60_000

        return Loop(what, tick, at_once=at_once)

    more = [loop("patient", at_once=False), loop("quick", at_once=True)]
    async with on_duty(duties_of(fake.port, tmp_path, collect=False, more=more)), asyncio.timeout(10):
        while fake.waiting < 4:  # with those that sweep and announce
            await asyncio.sleep(0.001)
        looks.clear()
        fake.change.set()
        while "patient" not in looks:
            await asyncio.sleep(0.001)

    assert looks[0] == "quick"


async def test_duties_end_at_once_when_asked_to(real: Ledger, tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    async with on_duty(duties_of(real, tmp_path)):
        await asyncio.sleep(0.1)
        started = loop.time()

    assert loop.time() - started < 0.5


async def test_a_sweep_that_hangs_is_late_and_a_collection_may_take_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service manager starts a process anew in which leases would never end; a slow store is no reason."""
    fake, hung = ChangingFake(), asyncio.Event()

    async def hang(**_: object) -> list[object]:
        hung.set()
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(fake, "garbage", hang)
    duties, hour_ms = duties_of(fake.port, tmp_path), 3_600_000
    async with on_duty(duties), asyncio.timeout(4):
        await hung.wait()
        late_ms = duties.returns.late_ms(SystemClock.open_system().boot_ms() + 2 * hour_ms)
        assert "due" in fake.asked
    assert duties.returns._by_ms.keys() == {"sweep"}
    assert late_ms < 2 * hour_ms

    hung.clear()
    monkeypatch.setattr(fake, "due", hang)
    duties = duties_of(fake.port, tmp_path, collect=False)
    async with on_duty(duties), asyncio.timeout(4):
        await hung.wait()
    assert duties.returns.late_ms(SystemClock.open_system().boot_ms() + hour_ms) > hour_ms - 1000
