"""A disk of a few megabytes that a test can fill and empty again. Only root can mount one."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SmallDisk:
    folder: Path

    @property
    def ballast(self) -> Path:
        return self.folder / "ballast"

    def fill(self, *, leave_bytes: int = 0) -> None:
        """Write a file until nothing fits any more, then give back what is to be left."""
        with self.ballast.open("ab", buffering=0) as file:
            for size in (65_536, 4_096, 1):
                try:
                    while True:
                        file.write(b"\0" * size)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
        with self.ballast.open("r+b") as file:
            file.truncate(max(0, self.ballast.stat().st_size - leave_bytes))

    def empty(self) -> None:
        self.ballast.unlink()


@contextmanager
def small_disk(folder: Path, *, megabytes: int) -> Iterator[SmallDisk]:
    """A memory disk, mounted on a new folder and gone afterwards."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)], check=True)
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
