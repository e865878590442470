"""Processes whose wall clock a test can move. The machine's own clock is never touched.

The processes find a module that moves what Python's `time` says of the wall clock, by as much as a file says
at that moment. The monotonic clock and boottime stay, as on a machine whose clock is set by hand. (libfaketime
would do the same one layer below, but it delays each wait of an event loop by up to seconds, which no clock does.)
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

MODULE = """
import time
from pathlib import Path

FILE = Path(__file__).with_name("step")
real_ns = time.time_ns


def time_ns():
    return real_ns() + int(FILE.read_text()) * 1_000_000_000


time.time_ns = time_ns
time.time = lambda: time_ns() / 1e9
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
        (folder / "sitecustomize.py").write_text(MODULE)
        clock = cls(folder)
        clock.set(0)
        return clock

    def set(self, seconds: int) -> None:
        """Move the wall clock of all its processes to so many seconds beside the real one."""
        fresh = self.folder / "step.new"
        fresh.write_text(str(seconds))
        fresh.replace(self.folder / "step")

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to have this clock."""
        return {"PYTHONPATH": str(self.folder)}

    def reads(self) -> tuple[float, float]:
        """What a process with this clock reads: wall clock and boottime, seconds."""
        code = "import time; print(time.time(), time.clock_gettime(time.CLOCK_BOOTTIME))"
        told = subprocess.run([sys.executable, "-c", code], env=self.environment, capture_output=True, check=True)
        wall, boot = told.stdout.split()
        return float(wall), float(boot)
