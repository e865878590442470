"""Folders of job code are listed and removed, however deep and closed they are."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from planrun.folders import files_below, remove_folder
from planrun.worker.meter import Meter
from tests.worker.test_meter import OurselvesTwice

DEPTH = 2500


def nest(folder: Path, depth: int) -> None:
    """Folders within folders, and a file in the last one, whose whole path no call could take."""
    parent = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=parent)
        inner = os.open("d", os.O_RDONLY, dir_fd=parent)
        os.close(parent)
        parent = inner
    os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=parent))
    os.close(parent)


def test_a_folder_deeper_than_any_path_is_removed(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    nest(tmp_path / "deep", DEPTH)
    remove_folder(tmp_path / "deep")

    assert list(tmp_path.iterdir()) == []


def test_two_may_remove_the_same_deep_folder_at_once(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    nest(tmp_path / "deep", DEPTH)
    removing = [threading.Thread(target=remove_folder, args=(tmp_path / "deep",)) for _ in range(2)]
    for thread in removing:
        thread.start()
    for thread in removing:
        thread.join()
    remove_folder(tmp_path / "deep")  # what the one took from under the other's hands

    assert list(tmp_path.iterdir()) == []


def test_links_out_of_a_folder_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("kept")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "link").symlink_to(tmp_path / "kept")
    nest(tmp_path / "deep", DEPTH)
    listed = files_below(tmp_path / "deep")

    assert next(listed) == tmp_path / "deep" / "link"
    remove_folder(tmp_path / "deep")
    assert (tmp_path / "kept" / "file").read_text() == "kept"
    assert (tmp_path / "kept").stat().st_mode & 0o777 != 0o700


def test_depth_beyond_any_path_is_an_error_and_no_crash(tmp_path: Path) -> None:
    nest(tmp_path, DEPTH)

    with pytest.raises(OSError, match="too long"):
        list(files_below(tmp_path))
    assert Meter(OurselvesTwice("m"), str(tmp_path), 0).read()["scratch_bytes"] >= 0
    remove_folder(tmp_path)


def test_several_who_remove_one_folder_at_once_leave_nothing(tmp_path: Path) -> None:
    """Every living worker clears after a dead one; whoever is slower must not stop half-way."""
    for n in range(20):
        folder = tmp_path / str(n)
        for name in range(40):
            (folder / str(name) / "inner").mkdir(parents=True)
            (folder / str(name) / "file").touch()
        removers = [threading.Thread(target=remove_folder, args=(folder,)) for _ in range(4)]
        for remover in removers:
            remover.start()
        for remover in removers:
            remover.join()
        remove_folder(folder)  # gone already, if only one of them did it

        assert not folder.exists()
