"""What lost attempts leave behind goes, and nothing else does (C41, C44)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from planrun.core.errors import StorageError
from planrun.core.keeping import Garbage
from planrun.core.messages import Lease
from planrun.core.names import attempt_prefix, token_of
from planrun.orchestrator.collector import COLLECT_EVERY_MS, REVISIT_MS_MAX, Collector
from planrun.storage.contract import Stored
from planrun.storage.filesystem import FilesystemStore
from planrun.worker.folder import AttemptFolder
from tests.orchestrator.fake_ledger import FakeLedger

pytestmark = pytest.mark.anyio

DEAD, LIVE = token_of(1, 33), token_of(1, 34)


@pytest.fixture
def store(tmp_path: Path) -> FilesystemStore:
    return FilesystemStore(tmp_path / "store")


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@pytest.fixture
def collector(ledger: FakeLedger, store: FilesystemStore, scratch: Path) -> Collector:
    return Collector(ledger.port, store, scratch=scratch, gc_grace_s=0)


def put(store: FilesystemStore, tmp_path: Path, job: str, token: int, name: str = "out") -> Stored:
    (tmp_path / "file").write_text(name)
    return store.put(attempt_prefix("ns", job, 1, token), name, tmp_path / "file", may_go_on=lambda: True)


def garbage(job: str, token: int, *, keep: tuple[str, ...] = (), final: bool = True) -> Garbage:
    return Garbage(namespace="ns", lease=Lease(job_id=job, attempt=1, token=token), keep=keep, final=final)


async def test_the_objects_of_a_lost_attempt_go_and_those_that_count_stay(
    ledger: FakeLedger, store: FilesystemStore, collector: Collector, tmp_path: Path
) -> None:
    lost, kept = put(store, tmp_path, "job", DEAD), put(store, tmp_path, "job", DEAD, "checkpoint")
    winner = put(store, tmp_path, "job", LIVE)
    ledger.rubbish = [garbage("job", DEAD, keep=(kept.key,))]

    next_ms = await collector.tick(ledger.boot_ms)

    assert store.head(lost.key) is None
    assert set(store.keys("")) == {kept.key, winner.key}
    assert ledger.asked == ["collected job 1"]
    assert next_ms == ledger.boot_ms + COLLECT_EVERY_MS


async def test_half_an_upload_goes_too(
    ledger: FakeLedger, store: FilesystemStore, collector: Collector, tmp_path: Path
) -> None:
    staging = tmp_path / "store/.staging" / attempt_prefix("ns", "job", 1, DEAD)
    staging.mkdir(parents=True)
    (staging / "tmp1234").write_bytes(b"half")
    ledger.rubbish = [garbage("job", DEAD)]

    await collector.tick(ledger.boot_ms)

    assert list((tmp_path / "store").iterdir()) == []


async def test_an_attempt_that_may_still_write_is_visited_again(
    ledger: FakeLedger, store: FilesystemStore, collector: Collector, tmp_path: Path
) -> None:
    """A zombie uploads after the first collection; the second one finds it."""
    ledger.rubbish = [garbage("job", DEAD, final=False)]
    next_ms = await collector.tick(ledger.boot_ms)
    late = put(store, tmp_path, "job", DEAD)
    await collector.tick(next_ms)

    assert store.head(late.key) is None
    assert ledger.asked == []


async def test_it_is_visited_more_and_more_rarely_and_at_once_when_nothing_is_written_there_any_more(
    ledger: FakeLedger, scratch: Path, tmp_path: Path
) -> None:
    store = CountingStore(tmp_path / "store")
    collector = Collector(ledger.port, store, scratch=scratch, gc_grace_s=0)
    ledger.rubbish = [garbage("job", DEAD, final=False)]
    now_ms = ledger.boot_ms
    at_ms: list[int] = []
    while now_ms < ledger.boot_ms + 6 * REVISIT_MS_MAX:
        before = store.listed
        next_ms = await collector.tick(now_ms)
        at_ms += [now_ms] * (store.listed - before)
        now_ms = next_ms

    waits_ms = [later - sooner for sooner, later in pairwise(at_ms)]
    assert waits_ms[:3] == [20_000, 40_000, 80_000]
    assert set(waits_ms[-3:]) == {REVISIT_MS_MAX}
    ledger.rubbish = [garbage("job", DEAD)]
    await collector.tick(now_ms)
    assert ledger.asked == ["collected job 1"]


class CountingStore(FilesystemStore):
    """Counts what a store has to be paid for.

    Attributes:
        listed: How often something was listed.
    """

    listed = 0

    def keys(self, prefix: str) -> Iterator[str]:
        self.listed += 1
        return super().keys(prefix)


class StubbornStore(FilesystemStore):
    """Cannot list what belongs to one job."""

    def keys(self, prefix: str) -> Iterator[str]:
        if "stubborn" in prefix:
            raise StorageError("cannot list it")
        yield from super().keys(prefix)


async def test_objects_that_cannot_be_deleted_hold_nothing_else_up(
    ledger: FakeLedger, scratch: Path, tmp_path: Path
) -> None:
    store = StubbornStore(tmp_path / "store")
    other = put(store, tmp_path, "other", LIVE)
    ledger.rubbish = [garbage("stubborn", DEAD), garbage("other", LIVE)]

    with pytest.raises(StorageError, match="cannot list it"):
        await Collector(ledger.port, store, scratch=scratch, gc_grace_s=0).tick(ledger.boot_ms)

    assert store.head(other.key) is None
    assert ledger.asked == ["collected other 1"]


async def test_scratch_of_dead_attempts_goes_and_of_live_ones_stays(
    ledger: FakeLedger, collector: Collector, scratch: Path
) -> None:
    for token in (DEAD, LIVE):
        (scratch / f"{token:x}" / "scratch/deep").mkdir(parents=True)
        (scratch / f"{token:x}" / "scratch/deep/frame.png").touch()
    ledger.live = {LIVE}

    await collector.tick(ledger.boot_ms)

    assert [path.name for path in scratch.iterdir()] == [f"{LIVE:x}"]


async def test_a_folder_that_the_next_attempt_takes_over_meanwhile_is_not_emptied_under_it(
    ledger: FakeLedger, collector: Collector, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = AttemptFolder(scratch, DEAD)
    before.create()

    def remove(folder: Path) -> None:
        """As `shutil` does: what has been opened once is emptied, whatever its name is by then."""
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        AttemptFolder(scratch, LIVE, instead_of=before).create()
        for entry in os.scandir(handle):
            os.rmdir(entry.name, dir_fd=handle)
        os.close(handle)
        folder.rmdir()

    monkeypatch.setattr(shutil, "rmtree", remove)
    await collector.tick(ledger.boot_ms)

    assert sorted(str(path.relative_to(scratch)) for path in scratch.rglob("*")) == [
        f"{LIVE:x}",
        *(f"{LIVE:x}/{own}" for own in ("home", "scratch", "tmp")),
    ]


async def test_a_folder_whose_removal_was_cut_short_goes_next_time(
    ledger: FakeLedger, collector: Collector, scratch: Path
) -> None:
    (scratch / f"{DEAD:x}.gone" / "scratch").mkdir(parents=True)

    await collector.tick(ledger.boot_ms)

    assert list(scratch.iterdir()) == []


async def test_a_dry_run_tells_and_removes_nothing(
    ledger: FakeLedger, store: FilesystemStore, scratch: Path, tmp_path: Path
) -> None:
    lost, folder = put(store, tmp_path, "job", DEAD), scratch / f"{DEAD:x}"
    folder.mkdir()
    ledger.rubbish = [garbage("job", DEAD)]
    told: list[str] = []

    await Collector(ledger.port, store, scratch=scratch, gc_grace_s=0, dry_run=True, tell=told.append).tick(0)

    assert told == [str(folder), lost.key]
    assert (store.head(lost.key), folder.exists(), ledger.asked) == (lost.bytes, True, [])


async def test_what_is_not_an_attempts_folder_is_never_touched(
    ledger: FakeLedger, collector: Collector, scratch: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Names of people that happen to be hex digits, files, links out of the scratch root, our own records."""
    for name in ("ada", "cafe", "decade", ".reserved", "notes", "0" * 11, "a" * 40):
        (scratch / name).mkdir()
    (scratch / f"{DEAD:x}").touch()
    (tmp_path / "precious").mkdir()
    (scratch / f"{LIVE:x}").symlink_to(tmp_path / "precious")
    before = sorted(scratch.iterdir())

    await collector.tick(ledger.boot_ms)

    assert sorted(scratch.iterdir()) == before
    assert (tmp_path / "precious").is_dir()
    assert caplog.records == []


async def test_a_link_inside_a_scratch_folder_is_removed_not_followed(
    ledger: FakeLedger, collector: Collector, scratch: Path, tmp_path: Path
) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/file").touch()
    (scratch / f"{DEAD:x}").mkdir()
    (scratch / f"{DEAD:x}/link").symlink_to(tmp_path / "precious")

    await collector.tick(ledger.boot_ms)

    assert list(scratch.iterdir()) == []
    assert (tmp_path / "precious/file").exists()


async def test_folders_that_job_code_has_closed_are_opened_and_removed(
    ledger: FakeLedger, collector: Collector, scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root nothing is closed, so the first try is made to fail as it would for others."""
    closed = scratch / f"{DEAD:x}/scratch/closed"
    closed.mkdir(parents=True)
    (closed / "file").touch()
    closed.chmod(0o000)
    (tmp_path / "foreign").mkdir(0o755)
    closed.with_name("link").symlink_to(tmp_path / "foreign")
    remove = shutil.rmtree

    def as_others(folder: Path) -> None:
        folders = [path for path in folder.rglob("*") if path.is_dir() and not path.is_symlink()]
        if any(path.stat().st_mode & 0o700 != 0o700 for path in folders):
            raise PermissionError(13, "Permission denied")
        remove(folder)

    monkeypatch.setattr(shutil, "rmtree", as_others)
    await collector.tick(ledger.boot_ms)

    assert list(scratch.iterdir()) == []
    assert (tmp_path / "foreign").stat().st_mode & 0o777 == 0o755


async def test_a_scratch_root_that_does_not_exist_yet_is_no_error(
    ledger: FakeLedger, store: FilesystemStore, tmp_path: Path
) -> None:
    collector = Collector(ledger.port, store, scratch=tmp_path / "none", gc_grace_s=0)

    assert await collector.tick(ledger.boot_ms) == ledger.boot_ms + COLLECT_EVERY_MS
