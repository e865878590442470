"""Copies of the source, one per process that runs at a time, in which one guard at a time is taken down."""

from __future__ import annotations

import compileall
import importlib.util
import shutil
from pathlib import Path

from .fences import Fence

SOURCE = Path(__file__).parents[2] / "src" / "planrun"


class Copy:
    """A folder with a planrun of its own, compiled beforehand: every run would compile it again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(SOURCE, self.source)
        compileall.compile_dir(self.source, quiet=2)

    @property
    def source(self) -> Path:
        return self.folder / "planrun"

    @property
    def log(self) -> Path:
        """What pytest said last."""
        return self.folder / "log"

    @property
    def failed(self) -> Path:
        """Where a run writes down the tests that failed."""
        return self.folder / "failed"

    def failures(self) -> list[str]:
        return self.failed.read_text().splitlines() if self.failed.exists() else []

    def count(self, guard: Fence) -> int:
        """How often the guard's text stands where it is said to."""
        return (self.source / guard.file).read_text().count(guard.old)

    def take_down(self, guard: Fence) -> None:
        file = self.source / guard.file
        file.write_text(file.read_text().replace(guard.old, guard.new))
        Path(importlib.util.cache_from_source(file)).unlink(missing_ok=True)

    def restore(self, guard: Fence) -> None:
        """As it was, with the time of its last change, by which the compiled one is known to be good."""
        shutil.copy2(SOURCE / guard.file, self.source / guard.file)
