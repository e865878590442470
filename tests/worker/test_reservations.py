"""What workers of one scratch root see of each other's promises, whatever happens while they look."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

import pytest

from planrun.core.admission import Load
from planrun.worker.reservations import FOLDER, Reservations

PROMISED = [Load(disk_reserve=1 << 30), Load(disk_reserve=5, memory_reserve=7)]


@pytest.fixture
def writer(tmp_path: Path) -> Reservations:
    return Reservations(tmp_path, "writer")


@pytest.fixture
def reader(tmp_path: Path) -> Reservations:
    return Reservations(tmp_path, "reader")


def test_promises_count_from_the_moment_at_which_they_have_their_name(
    writer: Reservations, reader: Reservations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file with that name that nobody holds a lock on would be a dead worker's."""
    rename = Path.rename
    seen: list[list[Load]] = []

    def look_at_once(self: Path, target: Path) -> Path:
        renamed = rename(self, target)
        seen.append(reader.of_others())
        return renamed

    monkeypatch.setattr(Path, "rename", look_at_once)
    writer.announce(PROMISED)

    assert seen == [PROMISED]


def test_a_file_that_is_replaced_while_somebody_looks_at_it_is_no_dead_worker_s(
    writer: Reservations, reader: Reservations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opened here, then replaced by its worker, which lets the lock of the old file go."""
    writer.announce(PROMISED)
    lock = fcntl.flock

    def replace_before(fd: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        (tmp_path / FOLDER / "writer").unlink()
        writer.announce(PROMISED)
        lock(fd, how)

    monkeypatch.setattr(fcntl, "flock", replace_before)

    assert reader.of_others() == PROMISED
    assert reader.of_others() == PROMISED


def test_what_is_being_rewritten_is_read_again(
    writer: Reservations, reader: Reservations, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.announce(PROMISED)
    read = os.pread

    def torn(fd: int, count: int, offset: int) -> bytes:
        monkeypatch.setattr(os, "pread", read)
        return read(fd, count, offset).replace(b"1073741824", b"1         ")

    monkeypatch.setattr(os, "pread", torn)

    assert reader.of_others() == PROMISED


def test_promises_whose_folder_somebody_removed_are_announced_where_others_look(
    writer: Reservations, reader: Reservations, tmp_path: Path
) -> None:
    writer.announce(PROMISED)
    shutil.rmtree(tmp_path / FOLDER)
    writer.prepare()
    writer.announce(PROMISED)

    assert reader.of_others() == PROMISED


def test_promises_for_which_the_disk_has_no_room_are_refused(
    writer: Reservations, reader: Reservations, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: write(fd, data[:10], offset))

    with pytest.raises(OSError, match="No space left"):
        writer.announce(PROMISED)
    assert reader.of_others() == []
