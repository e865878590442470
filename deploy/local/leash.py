"""Nothing that is started for a test outlives it, not even if the test's process is killed.

A shell beside each process waits at a pipe whose other end this process holds: when it ends, however, the kernel closes
that, and the shell kills the group.
"""

from __future__ import annotations

import os
import subprocess

KILL_WHEN_ALONE = 'read -r _; kill -s KILL -- "-$0"; rm -rf -- "$@"'


class Leash:
    """On one process that leads a group of its own."""

    def __init__(self, process: subprocess.Popen[bytes], *folders: str) -> None:
        """
        Args:
            folders: Removed, too, if it comes to that.
        """
        waiting, self._held = os.pipe()
        try:
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", KILL_WHEN_ALONE, str(process.pid), *folders],
                stdin=waiting,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        finally:
            os.close(waiting)

    def drop(self) -> None:
        """The process is to be ended by others, or has been. Call it before anybody waits for it."""
        self._shell.kill()
        self._shell.wait()
        os.close(self._held)
