"""The store in a folder: the contract, and what only a disk can do to it."""

from __future__ import annotations

import errno
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from planrun.core.errors import StorageError
from planrun.storage import filesystem
from planrun.storage.contract import Store
from planrun.storage.filesystem import FilesystemStore
from tests.contract.store_contract import LATER, MIB, PREFIX, StoreContract, yes

PUT_A_FILE = """
import sys
from pathlib import Path
from planrun.storage.filesystem import FilesystemStore

FilesystemStore(Path(sys.argv[1])).put(sys.argv[2], "out.mp4", Path(sys.argv[3]), may_go_on=lambda: True)
"""


class TestFilesystemStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[FilesystemStore]:
        yield FilesystemStore(tmp_path / "store")

    def test_an_unfinished_upload_is_listed_but_not_readable(self, store: Store, source: Path) -> None:
        listed: list[str] = []

        def look() -> bool:
            listed[:] = store.keys(PREFIX)
            return True

        store.put(PREFIX, "out.mp4", source, may_go_on=look)

        assert len(listed) == 1
        with pytest.raises(StorageError, match="no object key"):
            store.head(listed[0])

    def test_a_deleted_upload_never_becomes_visible(self, store: Store, source: Path) -> None:
        """A zombie that uploads on after the collection of its attempt gets an error."""

        def collect() -> bool:
            for key in store.keys(PREFIX):
                store.delete(key)
            return True

        with pytest.raises(StorageError, match="given up"):
            store.put(PREFIX, "out.mp4", source, may_go_on=collect)

        assert list(store.keys(PREFIX)) == []


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "out.mp4"
    path.write_bytes(os.urandom(3 * MIB))
    return path


def files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if not path.is_dir())


def test_an_object_is_readable_for_all_and_writable_for_nobody(root: Path, source: Path) -> None:
    store = FilesystemStore(root)

    path = store.local_path(store.put(PREFIX, "out.mp4", source, may_go_on=yes).key)

    assert path is not None
    assert path.stat().st_mode & 0o777 == 0o444


def test_an_object_shares_no_bytes_with_its_source(root: Path, source: Path) -> None:
    """A process that goes on writing to its output cannot reach what was stored."""
    store = FilesystemStore(root)
    stored = store.put(PREFIX, "out.mp4", source, may_go_on=yes)
    with source.open("r+b") as late:
        late.write(b"late")

    path = store.local_path(stored.key)

    assert path is not None
    assert hashlib.sha256(path.read_bytes()).hexdigest() == stored.sha256


def test_the_digest_is_of_the_bytes_written_when_the_source_changes_meanwhile(root: Path, source: Path) -> None:
    store = FilesystemStore(root)

    def rewrite() -> bool:
        with source.open("r+b") as writer:
            writer.write(os.urandom(3 * MIB))
        return True

    stored = store.put(PREFIX, "out.mp4", source, may_go_on=rewrite)

    path = store.local_path(stored.key)
    assert path is not None
    assert hashlib.sha256(path.read_bytes()).hexdigest() == stored.sha256


def test_a_link_and_a_pipe_are_no_outputs(root: Path, source: Path, tmp_path: Path) -> None:
    store = FilesystemStore(root)
    (tmp_path / "link").symlink_to(source)
    os.mkfifo(tmp_path / "pipe")

    for name in ("link", "pipe"):
        with pytest.raises(StorageError):
            store.put(PREFIX, name, tmp_path / name, may_go_on=yes)

    assert files_below(root) == []


def test_files_left_in_staging_are_never_taken_for_an_upload(root: Path, source: Path) -> None:
    """C44: what lies there says nothing; only the bytes of this put count."""
    staging = root / ".staging" / PREFIX
    staging.mkdir(parents=True)
    for name in ("out.mp4", "out.mp4.part"):
        (staging / name).write_bytes(b"left over")
    store = FilesystemStore(root)

    path = store.local_path(store.put(PREFIX, "out.mp4", source, may_go_on=yes).key)

    assert path is not None
    assert path.read_bytes() == source.read_bytes()


def test_a_foreign_file_under_the_same_key_is_refused_not_replaced(root: Path, source: Path) -> None:
    store = FilesystemStore(root)
    stored = store.put(PREFIX, "out.mp4", source, may_go_on=yes)
    path = root / stored.key
    path.unlink()
    path.write_bytes(b"foreign")

    with pytest.raises(StorageError, match="somebody changed it"):
        store.put(PREFIX, "out.mp4", source, may_go_on=yes)

    assert files_below(root) == [path]
    assert path.read_bytes() == b"foreign"


def test_deleting_the_last_object_leaves_an_empty_store(root: Path, source: Path) -> None:
    store = FilesystemStore(root)
    stored = store.put(PREFIX, "a/b/out.mp4", source, may_go_on=yes)
    store.delete(stored.key)

    assert list(root.iterdir()) == []
    assert source.exists()


def test_a_failed_fsync_is_told_and_the_bytes_are_thrown_away(
    root: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []

    def fail(fd: int) -> None:
        synced.append(fd)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StorageError, match="Input/output error") as raised:
        FilesystemStore(root).put(PREFIX, "out.mp4", source, may_go_on=yes)

    assert not raised.value.disk_full
    assert len(synced) == 1
    assert files_below(root) == []


def test_an_object_whose_name_could_not_be_made_durable_does_not_stay(
    root: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the next try would find it, sync the folder without an error, and call it stored."""

    def fail(folder: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(filesystem, "fsync_folder", fail)
    with pytest.raises(StorageError):
        FilesystemStore(root).put(PREFIX, "out.mp4", source, may_go_on=yes)

    assert files_below(root) == []


def test_bytes_are_synced_before_the_name_and_folders_after_it(
    root: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    real_fsync, real_rename = os.fsync, Path.rename

    def fsync(fd: int) -> None:
        path = Path(f"/proc/self/fd/{fd}").readlink()
        order.append("file" if path.is_file() else str(path.relative_to(root.parent)))
        real_fsync(fd)

    def rename(self: Path, target: Path) -> Path:
        order.append("rename")
        return real_rename(self, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "rename", rename)
    stored = FilesystemStore(root).put("ns/jobs/j/1-a/", "out.mp4", source, may_go_on=yes)

    folders = [f"store/ns/jobs/j/1-a/{stored.sha256}", "store/ns/jobs/j/1-a", "store/ns/jobs/j", "store/ns/jobs"]
    assert order == ["file", "rename", *folders, "store/ns", "store", "."]


def test_an_upload_that_was_killed_stays_invisible_and_can_be_collected(
    root: Path, source: Path, tmp_path: Path
) -> None:
    """D2, C40, C41: frozen in the middle, then killed; its leftovers are listed for the collector."""
    trips = tmp_path / "trips"
    trips.mkdir()
    (trips / "upload:chunk").touch()
    uploader = subprocess.Popen(
        [sys.executable, "-c", PUT_A_FILE, str(root), PREFIX, str(source)],
        env={**os.environ, "PLANRUN_TRIP_DIR": str(trips)},
    )
    deadline = time.monotonic() + 20
    while not list(trips.glob("upload:chunk.*.reached")):
        assert time.monotonic() < deadline
        assert uploader.poll() is None
        time.sleep(0.01)
    uploader.send_signal(signal.SIGKILL)
    uploader.wait()

    store = FilesystemStore(root)
    left = list(store.keys(PREFIX))
    assert [key.startswith(".staging/") for key in left] == [True]
    assert list(store.keys(LATER)) == []
    store.delete(left[0])
    assert list(root.iterdir()) == []


def test_a_folder_that_another_prunes_between_its_making_and_its_use_is_made_again(
    root: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for staging and once for the object: each is gone again as soon as it was made."""
    make = Path.mkdir
    pruned: set[Path] = set()

    def make_and_prune(self: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        make(self, mode, parents, exist_ok)
        if self not in pruned:
            pruned.add(self)
            self.rmdir()

    monkeypatch.setattr(Path, "mkdir", make_and_prune)
    store = FilesystemStore(root)
    stored = store.put(PREFIX, "out.mp4", source, may_go_on=yes)

    assert store.head(stored.key) == 3 * MIB
    assert {root / ".staging" / PREFIX, root / PREFIX / stored.sha256} <= pruned


def test_uploads_and_deletions_side_by_side_lose_no_object(root: Path, source: Path) -> None:
    """Folders that one attempt empties are the parents that another is about to use."""
    store = FilesystemStore(root)
    small = source.with_name("small")
    small.write_bytes(b"x")
    failures: list[BaseException] = []

    def put_and_delete(n: int) -> None:
        try:
            for _ in range(40):
                stored = store.put(f"ns/jobs/j/{n}-{n}/", "x", small, may_go_on=yes)
                assert store.head(stored.key) == 1
                store.delete(stored.key)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=put_and_delete, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert list(root.iterdir()) == []


def test_a_file_in_the_way_is_told(root: Path, source: Path) -> None:
    (root / "media").mkdir(parents=True)
    (root / "media/jobs").touch()

    with pytest.raises(StorageError, match=r"jobs/job-1.*"):
        FilesystemStore(root).put(PREFIX, "out.mp4", source, may_go_on=yes)

    assert files_below(root) == [root / "media/jobs"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MiB of its own."""
    mount = tmp_path / "disk"
    mount.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(mount)], check=True)
    try:
        yield mount
    finally:
        subprocess.run(["umount", str(mount)], check=True)


@pytest.mark.needs_root
def test_a_full_disk_is_told_and_leaves_nothing_behind(small_disk: Path, source: Path) -> None:
    """C39: the error says so in words and as a flag; once there is room the same put succeeds."""
    store = FilesystemStore(small_disk / "store")
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(2 * MIB))

    with pytest.raises(StorageError, match="is full") as raised:
        store.put(PREFIX, "out.mp4", source, may_go_on=yes)
    assert raised.value.disk_full
    assert list(store.keys("")) == []

    ballast.unlink()
    stored = store.put(PREFIX, "out.mp4", source, may_go_on=yes)
    assert store.head(stored.key) == 3 * MIB


def test_a_small_object_is_durable_before_anybody_is_told(
    root: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the loser of a race, too: the winner may not have made the name durable yet."""
    store, synced = FilesystemStore(root), list[str]()
    real_fsync = os.fsync

    def fsync(fd: int) -> None:
        path = Path(f"/proc/self/fd/{fd}").readlink()
        synced.append("file" if path.is_file() else str(path.relative_to(root.parent)))
        real_fsync(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    for _ in range(2):
        synced.clear()
        store.put_if_absent("ns/ended/job.json", b"{}")

        assert synced == ["file", "store/ns/ended", "store/ns", "store", "."]
    assert files_below(root) == [root / "ns/ended/job.json"]
    assert (root / "ns/ended/job.json").stat().st_mode & 0o777 == 0o444


@pytest.mark.parametrize(("number", "is_away"), [(errno.ESTALE, True), (errno.ETIMEDOUT, True), (errno.EIO, False)])
def test_a_network_filesystem_that_is_gone_is_away_and_a_broken_disk_is_not(
    root: Path, source: Path, monkeypatch: pytest.MonkeyPatch, number: int, is_away: bool
) -> None:
    def fail(fd: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StorageError) as raised:
        FilesystemStore(root).put(PREFIX, "out.mp4", source, may_go_on=yes)

    assert raised.value.is_away is is_away
    assert not raised.value.disk_full
