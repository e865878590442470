"""Processes whose wall clock a test can move. The machine's own clock is never touched.

libfaketime moves the wall clock of the processes that it is loaded into, and reads the step from a file
once a second. The monotonic clock and boottime are left alone, as on a machine whose clock is set by hand.
Some versions of it refuse `clock_nanosleep`, so `time.sleep` takes another way in these processes.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

LIBRARIES = (
    Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"),
    Path("/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1"),
    Path("/usr/lib/faketime/libfaketimeMT.so.1"),
)
SLEEP = """import select, time
time.sleep = lambda seconds: select.select([], [], [], seconds) and None
"""


@dataclass(frozen=True)
class SteppedClock:
    """Attributes:
    folder: For what its processes read.
    """

    folder: Path

    @classmethod
    def new(cls, folder: Path) -> SteppedClock:
        """A clock that shows the real time until it is stepped."""
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(SLEEP)
        clock = cls(folder)
        clock.set(0)
        return clock

    @property
    def file(self) -> Path:
        return self.folder / "step"

    def set(self, seconds: int) -> None:
        """Move the wall clock of all its processes to so many seconds beside the real one."""
        fresh = self.file.with_suffix(".new")
        fresh.write_text(f"{seconds:+d}s")
        fresh.replace(self.file)

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to have this clock."""
        return {
            "LD_PRELOAD": str(next(path for path in LIBRARIES if path.exists())),
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_CACHE_DURATION": "1",
            "PYTHONPATH": str(self.folder),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def reads(self) -> tuple[float, float]:
        """What a process with this clock reads: wall clock and boottime, seconds."""
        code = "import time; print(time.time(), time.clock_gettime(time.CLOCK_BOOTTIME))"
        told = subprocess.run([sys.executable, "-c", code], env=self.environment, capture_output=True, check=True)
        wall, boot = told.stdout.split()
        return float(wall), float(boot)
