"""An attempt's folder: empty at the start whoever had it before, and never emptied through a link."""

from __future__ import annotations

from pathlib import Path

import pytest

from planrun.worker.folder import SMALL_ENTRIES_MAX, SMALL_FILE_BYTES_MAX, AttemptFolder


@pytest.fixture
def folder(tmp_path: Path) -> AttemptFolder:
    folder = AttemptFolder(tmp_path, 33)
    folder.create()
    return folder


def everything_below(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def test_an_emptied_folder_takes_the_name_of_the_next_attempt(folder: AttemptFolder, tmp_path: Path) -> None:
    (folder.scratch / "frames").mkdir()
    (folder.scratch / "frames" / "1.png").write_text("left over")
    (folder.tmp / "link").symlink_to("/etc/passwd")

    assert folder.empty_small()
    AttemptFolder(tmp_path, 34, instead_of=folder).create()

    assert everything_below(tmp_path) == ["22", "22/home", "22/scratch", "22/tmp"]


def test_an_emptied_folder_that_somebody_removed_is_made_anew(folder: AttemptFolder, tmp_path: Path) -> None:
    folder.remove()

    AttemptFolder(tmp_path, 34, instead_of=folder).create()

    assert everything_below(tmp_path) == ["22", "22/home", "22/scratch", "22/tmp"]


def test_what_lay_under_the_name_of_a_fresh_attempt_is_gone(folder: AttemptFolder, tmp_path: Path) -> None:
    (folder.scratch / "of another one").touch()

    AttemptFolder(tmp_path, 33).create()

    assert everything_below(tmp_path) == ["21", "21/home", "21/scratch", "21/tmp"]


@pytest.mark.parametrize("where", ["scratch", "tmp", "home", "."])
def test_nothing_is_emptied_through_a_link(folder: AttemptFolder, tmp_path: Path, where: str) -> None:
    """Job code has put it in the place of its own folder."""
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    place = folder.path / where
    place.rename(tmp_path / "away")
    (folder.path if where == "." else place).symlink_to(kept)

    assert not folder.empty_small()
    folder.remove_small()

    assert (kept / "file").exists()


@pytest.mark.parametrize("mode", [0o000, 0o500])
def test_a_folder_that_was_closed_is_not_handed_on(folder: AttemptFolder, mode: int) -> None:
    folder.scratch.chmod(mode)

    assert not folder.empty_small()


def test_a_folder_beside_the_job_s_own_is_not_handed_on(folder: AttemptFolder) -> None:
    folder.inputs.mkdir()

    assert not folder.empty_small()


def test_much_is_left_to_a_thread(folder: AttemptFolder) -> None:
    for n in range(2 * SMALL_ENTRIES_MAX + 1):
        (folder.scratch / str(n)).touch()

    assert not folder.empty_small()
    assert not folder.remove_small()
    folder.remove()
    assert not folder.path.exists()


def test_a_large_file_is_left_to_a_thread(folder: AttemptFolder) -> None:
    with (folder.scratch / "film").open("wb") as film:
        film.truncate(SMALL_FILE_BYTES_MAX + 1)

    assert not folder.empty_small()
