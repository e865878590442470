"""What a tree uses is measured as the limits mean it."""

from __future__ import annotations

import os
from pathlib import Path

from planrun.worker.meter import Meter
from planrun.worker.tree import Process, Tree, look


class OurselvesTwice(Tree):
    """Two processes that share all their memory, as after a fork."""

    def members(self) -> list[Process]:
        found = look(os.getpid())
        assert found is not None
        return [found, found]


def test_scratch_counts_what_lies_on_disk_without_the_inputs(tmp_path: Path) -> None:
    (tmp_path / "scratch" / "deep").mkdir(parents=True)
    (tmp_path / "inputs").mkdir()
    (tmp_path / "scratch" / "deep" / "out").write_bytes(os.urandom(1_000_000))
    (tmp_path / "inputs" / "in").write_bytes(os.urandom(3_000_000))
    (tmp_path / "scratch" / "loop").symlink_to(tmp_path)
    with (tmp_path / "scratch" / "sparse").open("wb") as sparse:
        sparse.truncate(10**9)
    used = Meter(OurselvesTwice("m"), str(tmp_path), 0)

    assert 1_000_000 <= used.read()["scratch_bytes"] < 1_100_000


def test_a_folder_that_is_gone_holds_nothing(tmp_path: Path) -> None:
    assert Meter(OurselvesTwice("m"), str(tmp_path / "gone"), 0).read()["scratch_bytes"] == 0


def test_beyond_the_limit_shared_memory_is_counted_once_each(tmp_path: Path) -> None:
    plain = Meter(OurselvesTwice("m"), str(tmp_path), 0).read()["rss_bytes"]
    exact = Meter(OurselvesTwice("m"), str(tmp_path), 1).read()["rss_bytes"]

    assert 0 < exact < plain
