"""A checkpoint folder on its way into the store: what is kept, what is refused, and what is copied again."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import pytest

from planrun.core.errors import Permanent
from planrun.core.messages import Checkpoint
from planrun.storage.filesystem import FilesystemStore
from planrun.worker import checkpoints
from planrun.worker.checkpoints import CheckpointUpload


class Job:
    """Its checkpoint folder, and where that goes."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "checkpoint"
        self.folder.mkdir()
        self.store = FilesystemStore(root / "store")
        self.uploads = CheckpointUpload(
            self.store, attempt=1, prefix="ns/jobs/j/1-1/", format_name="steps-1", bytes_max=10_000
        )

    def leave(self, seq: int = 1) -> Checkpoint:
        return self.uploads.upload(self.folder, seq, may_go_on=lambda: True)

    def kept(self, checkpoint: Checkpoint, into: Path) -> dict[str, bytes]:
        """What a next attempt would find."""
        found = {}
        for n, file in enumerate(checkpoint.files):
            self.store.get(file.key, into / str(n), sha256=file.sha256)
            found[file.name] = (into / str(n)).read_bytes()
        return found


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def test_what_changed_is_stored_again_and_what_did_not_is_named_again(job: Job, tmp_path: Path) -> None:
    (job.folder / "deep").mkdir()
    (job.folder / "deep" / "same").write_text("same")
    (job.folder / "state").write_text("1")
    first = job.leave(1)
    (job.folder / "state").write_text("2")
    second = job.leave(2)

    assert first.files[0] is second.files[0]
    assert job.kept(second, tmp_path) == {"deep/same": b"same", "state": b"2"}


def test_what_was_stored_of_a_checkpoint_that_failed_is_not_copied_again(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job.folder / "a").write_text("same")
    (job.folder / "b").symlink_to("/")
    with pytest.raises(Permanent):
        job.leave(1)
    (job.folder / "b").unlink()
    monkeypatch.setattr(job.store, "put", None)  # nothing is left for it

    assert [file.name for file in job.leave(2).files] == ["a"]


def test_what_has_changed_or_has_gone_is_forgotten(job: Job) -> None:
    for seq in range(1, 5):
        (job.folder / "same").touch(exist_ok=True)
        (job.folder / str(seq)).write_text("new")
        (job.folder / str(seq - 1)).unlink(missing_ok=True)
        job.leave(seq)

    assert [name for name, *_ in job.uploads._stored] == ["4", "same"]


def test_what_was_written_through_a_memory_map_has_changed(job: Job, tmp_path: Path) -> None:
    path = job.folder / "state"
    path.write_bytes(b"-" * mmap.PAGESIZE)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as pages:
        for seq, letter in enumerate(b"ABC", 1):
            pages[0] = letter
            kept = job.kept(job.leave(seq), tmp_path)

    assert kept["state"][:1] == b"C"


@pytest.mark.parametrize("what", ["link", "link to a folder", "pipe"])
def test_nothing_but_plain_files_is_kept_and_nobody_waits_for_a_pipe(job: Job, tmp_path: Path, what: str) -> None:
    (tmp_path / "secret").write_text("of this machine")
    match what:
        case "link":
            (job.folder / "state").symlink_to(tmp_path / "secret")
        case "link to a folder":
            (job.folder / "state").symlink_to(tmp_path)
        case "pipe":
            os.mkfifo(job.folder / "state")

    with pytest.raises(Permanent, match="not a plain file"):
        job.leave()


def test_a_name_that_is_no_text_is_refused(job: Job) -> None:
    (job.folder / os.fsdecode(b"\xff")).touch()

    with pytest.raises(Permanent, match="not UTF-8"):
        job.leave()


def test_more_than_the_kind_may_write_is_refused_holes_included(job: Job) -> None:
    with (job.folder / "state").open("wb") as file:
        file.truncate(10_000)
    job.leave()
    (job.folder / "one more").write_text("x")

    with pytest.raises(Permanent, match="10001 bytes"):
        job.leave()


def test_very_many_files_are_refused(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "FILES_MAX", 2)
    for name in "ab":
        (job.folder / name).touch()
    job.leave()
    (job.folder / "c").touch()

    with pytest.raises(Permanent, match="3 files"):
        job.leave()
