"""Measures what a job's tree uses: CPU, memory and the disk below its folders.

Imported by the launcher, which must start fast.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

from planrun.worker.tree import Tree

INPUTS = "inputs"
_SHARE_MAX = 0.05  # of the time may go into walking the folders


class Meter:
    """One attempt's measurements.

    Args:
        folder: The attempt's folder; its `inputs` are not counted.
        memory_bytes_max: The kind's limit; beyond it, memory shared by several processes is counted exactly.
    """

    def __init__(self, tree: Tree, folder: str, memory_bytes_max: int) -> None:
        self._tree = tree
        self._folder = folder
        self._memory_bytes_max = memory_bytes_max
        self._scratch_bytes = 0
        self._walk_again_s = 0.0

    def read(self) -> dict[str, int]:
        """The fields of `Vitals`."""
        members = self._tree.members()
        times = os.times()
        cpu_ms = sum(process.cpu_ms for process in members)
        cpu_ms += int((times.children_user + times.children_system) * 1000)
        rss_bytes = sum(process.rss_bytes for process in members)
        if 0 < self._memory_bytes_max < rss_bytes:
            rss_bytes = sum(_proportional(process.pid) or process.rss_bytes for process in members)
        return {"cpu_ms": cpu_ms, "rss_bytes": rss_bytes, "scratch_bytes": self._scratch()}

    def _scratch(self) -> int:
        began = time.monotonic()
        if began >= self._walk_again_s:
            self._scratch_bytes = _occupied(self._folder, skip=os.path.join(self._folder, INPUTS))  # noqa: PTH118
            took = time.monotonic() - began
            self._walk_again_s = began + took / _SHARE_MAX
        return self._scratch_bytes


def _proportional(pid: int) -> int:
    """Resident memory with shared pages divided among those who share them; 0 if not known."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as rollup:  # noqa: PTH123 - start-up time
            for line in rollup:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def _occupied(folder: str, *, skip: str) -> int:
    """Bytes on disk below a folder. What vanishes meanwhile does not count."""
    total = 0
    unseen = [folder]  # no recursion: a job may nest deeper than that goes
    while unseen:
        try:
            with os.scandir(unseen.pop()) as entries:
                for entry in entries:
                    with suppress(OSError):
                        if not entry.is_dir(follow_symlinks=False):
                            total += entry.stat(follow_symlinks=False).st_blocks * 512
                        elif entry.path != skip:
                            unseen.append(entry.path)
        except OSError:
            continue
    return total
