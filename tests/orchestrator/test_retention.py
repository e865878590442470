"""What was kept long enough goes in an order that a crash cannot turn into a loss."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from planrun.config import Place
from planrun.core.errors import StorageError
from planrun.core.keeping import BATCH_MAX, DOUBT_MS, Keep, Record
from planrun.core.messages import CancelRequest, Handler, SubmitRequest, WorkerRow
from planrun.ledger.contract import Ledger
from planrun.orchestrator.archive import Archive
from planrun.orchestrator.retention import BETWEEN_BATCHES_MS, LOOK_EVERY_MS, Retention
from planrun.storage.filesystem import FilesystemStore
from planrun.wiring import open_ledger
from tests.contract.manual_clock import ManualClock
from tests.soak.archive import archive_beside_grants

pytestmark = pytest.mark.anyio

DAY_S = 86_400
MAIN = Path(__file__).with_name("retention_main.py")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "ledger.db")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def ledger(place: Place, clock: ManualClock) -> AsyncIterator[Ledger]:
    ledger = open_ledger(str(place.ledger), clock=clock)
    yield ledger
    await ledger.close()


def a_retention(ledger: Ledger, place: Place, told: list[str] | None = None, *, believe: bool = True) -> Retention:
    tell = (lambda what: None) if told is None else told.append
    store, archive = FilesystemStore(place.store), Archive(place.archive)
    return Retention(ledger, store, archive, keep=Keep(), logs=place.logs, believe_clock=believe, tell=tell)


async def end_jobs(ledger: Ledger, count: int, *, prefix: str = "r") -> list[str]:
    """Jobs that ended while they waited: nothing of theirs lies in the store."""
    requests = [
        SubmitRequest(request_id=f"{prefix}{n}", kind="preview", content_hash="c", request_hash="h")
        for n in range(count)
    ]
    replies = await ledger.submit(requests)
    for reply in replies:
        await ledger.cancel(CancelRequest(namespace="default", job_id=reply.job_id))
    return [reply.job_id for reply in replies]


def lines(place: Place) -> list[str]:
    """The job ids of the archive, a line each."""
    found = []
    for file in sorted(place.archive.iterdir()):
        found += [json.loads(line)["job"]["job_id"] for line in file.read_text().splitlines()]
    return found


async def test_an_ended_job_goes_to_the_archive_and_its_log_with_it(
    ledger: Ledger, place: Place, clock: ManualClock
) -> None:
    [job_id] = await end_jobs(ledger, 1)
    place.log_of(job_id, 1).parent.mkdir(parents=True)
    place.log_of(job_id, 1).write_text("printed")
    told: list[str] = []
    retention = a_retention(ledger, place, told)
    assert await retention.tick(0) == LOOK_EVERY_MS
    clock.advance(14 * DAY_S)

    await retention.tick(0)
    assert place.log_of(job_id, 1).exists()
    await retention.tick(0)

    assert lines(place) == [job_id]
    assert told == [f"result of job {job_id}", f"job {job_id}, to the archive"]
    assert await ledger.job(None, job_id) is None
    assert not place.log_of(job_id, 1).parent.exists()


async def test_while_the_wall_clock_is_doubted_nothing_goes_and_that_is_said_once(
    ledger: Ledger, place: Place, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A clock that is set a year ahead, and back within the day, costs nothing."""
    told: list[str] = []
    retention = a_retention(ledger, place, told, believe=False)
    await retention.tick(0)
    clock.advance(DOUBT_MS / 1000)
    await retention.tick(0)
    assert caplog.messages == []  # a new ledger has nothing that could go
    [job_id] = await end_jobs(ledger, 1)

    clock.jump_wall(365 * DAY_S)
    for _ in range(20):
        assert await retention.tick(0) == LOOK_EVERY_MS
        clock.advance(3600)
    clock.jump_wall(-365 * DAY_S)
    for _ in range(30):
        await retention.tick(0)
        clock.advance(3600)

    assert told == []
    assert await ledger.result(job_id) is not None
    [said] = caplog.messages
    assert "wall clock was stepped" in said
    assert "gc --now" in said


async def test_a_clock_that_stays_a_year_ahead_is_believed_after_a_day(
    ledger: Ledger, place: Place, clock: ManualClock
) -> None:
    retention = a_retention(ledger, place, believe=False)
    await end_jobs(ledger, 1)
    await retention.tick(0)
    clock.jump_wall(365 * DAY_S)
    await retention.tick(0)
    clock.advance(DOUBT_MS / 1000)
    await retention.tick(0)

    assert (await ledger.stale(limit=10)).results == ()
    assert len((await ledger.stale(limit=10)).jobs) == 1


async def test_a_record_that_cannot_be_written_keeps_its_job(ledger: Ledger, place: Place, clock: ManualClock) -> None:
    [job_id] = await end_jobs(ledger, 1)
    retention = a_retention(ledger, place)
    clock.advance(14 * DAY_S)
    await retention.tick(0)
    [record] = await ledger.records([job_id])
    (place.archive / "2026-09-21.ndjson").mkdir()

    with pytest.raises(StorageError, match=r"cannot be written.*no job was dropped"):
        await retention.tick(0)

    assert await ledger.job(None, job_id) is not None
    (place.archive / "2026-09-21.ndjson").rmdir()
    await retention.tick(0)
    assert (place.archive / "2026-09-21.ndjson").read_text() == f"{record.line}\n"


async def test_a_file_in_the_place_of_the_archive_is_named_and_nothing_goes(
    ledger: Ledger, place: Place, clock: ManualClock
) -> None:
    await end_jobs(ledger, 1)
    clock.advance(14 * DAY_S)
    place.archive.write_text("in the way")

    with pytest.raises(StorageError, match=r"ledger.db.archive cannot be written"):
        await a_retention(ledger, place).tick(0)
    assert len((await ledger.stale(limit=10)).results) == 1


async def test_a_line_that_a_crash_cut_off_is_taken_away_and_no_other(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "archive")
    records = [Record(job_id=f"j{n}", ended_at_ms=0, seen=1, line=f'{{"n":{n},"x":"{"y" * 100_000}"}}') for n in (1, 2)]
    file = tmp_path / "archive/1970-01-01.ndjson"
    with archive.alone():
        archive.add(records[:1])
        with file.open("a") as torn:
            torn.write(records[1].line[:90_000])
        archive.add(records[1:])

    assert [json.loads(line)["n"] for line in file.read_text().splitlines()] == [1, 2]


async def test_a_file_that_begins_with_a_torn_line_becomes_whole(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "archive")
    with archive.alone():
        (tmp_path / "archive/1970-01-01.ndjson").write_text('{"half')
        archive.add([Record(job_id="j", ended_at_ms=0, seen=1, line="{}")])

    assert (tmp_path / "archive/1970-01-01.ndjson").read_text() == "{}\n"


async def test_of_two_that_do_it_at_once_one_leaves_it_to_the_other(
    ledger: Ledger, place: Place, clock: ManualClock
) -> None:
    await end_jobs(ledger, 1)
    clock.advance(14 * DAY_S)
    with Archive(place.archive).alone() as is_ours:
        assert is_ours
        assert await a_retention(ledger, place).tick(0) == LOOK_EVERY_MS

    assert len((await ledger.stale(limit=10)).results) == 1


async def test_many_ended_jobs_go_in_bounded_batches_with_room_in_between(
    ledger: Ledger, place: Place, clock: ManualClock
) -> None:
    jobs = await end_jobs(ledger, 2 * BATCH_MAX + 1)
    retention = a_retention(ledger, place)
    clock.advance(14 * DAY_S)
    waits = [await retention.tick(0) for _ in range(4)]

    assert waits == [BETWEEN_BATCHES_MS, BETWEEN_BATCHES_MS, BETWEEN_BATCHES_MS, LOOK_EVERY_MS]
    assert sorted(lines(place)) == sorted(jobs)


# --- with the clocks of this machine ---


@pytest.fixture
def trips(tmp_path: Path) -> Path:
    (tmp_path / "trips").mkdir()
    return tmp_path / "trips"


@pytest.fixture
async def brief(place: Place) -> AsyncIterator[Ledger]:
    """A ledger whose results are stale as soon as they stand."""
    ledger = open_ledger(str(place.ledger))
    handler = Handler(kind="preview", version="v1", result_ttl_s=0.001)
    await ledger.register(WorkerRow(incarnation="w1", name="w", host="box", slots=1, handlers=(handler,)))
    yield ledger
    await ledger.close()


@pytest.fixture
def start(place: Place, trips: Path) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Begin to drop and archive in a process of its own; ended for certain."""
    processes = []

    def one() -> subprocess.Popen[str]:
        environment = {**os.environ, "PLANRUN_TRIP_DIR": str(trips)}
        command = [sys.executable, str(MAIN), str(place.ledger)]
        processes.append(
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
        )
        return processes[-1]

    yield one
    for process in processes:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


async def until_archived(trips: Path) -> None:
    until = time.monotonic() + 30
    while not list(trips.glob("*.reached")):
        assert time.monotonic() < until, "it never archived"
        await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_killed_between_the_archive_and_the_ledger_a_line_stands_twice_and_none_is_missing(
    brief: Ledger, place: Place, trips: Path, start: Callable[[], subprocess.Popen[str]]
) -> None:
    jobs = await end_jobs(brief, 5)
    first = start()
    first.communicate(timeout=30)  # the results
    (trips / "retention:archived").touch()
    killed = start()
    await until_archived(trips)
    assert await brief.job(None, jobs[0]) is not None
    killed.kill()
    killed.communicate()

    done = start()
    said, _ = done.communicate(timeout=30)

    assert done.returncode == 0, said
    assert Counter(lines(place)) == dict.fromkeys(jobs, 2)
    assert await brief.counts(None) == dict.fromkeys(await brief.counts(None), 0)


@pytest.mark.slow
async def test_whoever_stands_still_with_the_archive_keeps_only_the_archive_waiting(
    brief: Ledger, place: Place, trips: Path, start: Callable[[], subprocess.Popen[str]]
) -> None:
    """It has read its records. A job that went on meanwhile stays, and is not lost."""
    jobs = await end_jobs(brief, 2)
    start().communicate(timeout=30)
    (trips / "retention:archived").touch()
    frozen = start()
    await until_archived(trips)

    [reply] = await brief.submit(
        [SubmitRequest(request_id="again", kind="preview", content_hash="c", request_hash="h", retry_of=jobs[0])]
    )
    assert await a_retention(brief, place).tick(0) == LOOK_EVERY_MS  # left to the one that holds it
    frozen.send_signal(signal.SIGCONT)
    said, _ = frozen.communicate(timeout=30)

    assert frozen.returncode == 0, said
    assert f"job {jobs[1]}, to the archive" in said
    assert f"job {jobs[0]}, to the archive" not in said
    assert [event.what for event in await brief.events(jobs[0])][-1] == "retried"
    assert await brief.job(None, reply.job_id) is not None


@pytest.mark.slow
@pytest.mark.serial
async def test_grants_do_not_wait_for_the_archive(brief: Ledger, place: Place) -> None:
    """Thousands of ended jobs go while jobs are granted; `python -m tests.soak archive` does it with 100 000."""
    latencies_s = await archive_beside_grants(brief, place, 2_000)

    assert len(lines(place)) == 2_000
    assert sorted(latencies_s)[len(latencies_s) // 2] < 0.1
