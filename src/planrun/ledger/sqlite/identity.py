"""Is what this process has open still what others open under that name?

A ledger that is removed or replaced under an open connection takes writes for ever, and nobody sees them. The same goes
for its write-ahead log, which another SQLite library *inside this process* removes when it closes the file: POSIX locks
belong to the process, so it takes ours away and believes itself alone.
"""

from __future__ import annotations

import os
from pathlib import Path

Seen = tuple[int, int] | None


class Identity:
    """The file and its log, as they were when a connection was opened."""

    def __init__(self, path: Path) -> None:
        self._path, self._log = str(path), f"{path}-wal"
        self._file_then, self._log_then = _look(self._path), _look(self._log)

    def find_loss(self) -> str:
        """What is wrong and what to do; empty: all is as it was."""
        if _look(self._path, self._file_then) != self._file_then:
            return f"{self._path} was removed or replaced while it was open here; close it, and open it again"
        if _look(self._log, self._log_then) != self._log_then:
            return (
                f"{self._log} was removed while it was open here, by hand or by another SQLite library inside this "
                "process (such as Python's sqlite3); end this process, and look at the ledger from another one"
            )
        return ""


def _look(path: str, otherwise: Seen = None) -> Seen:
    """Which file lies there; None: there is none. `otherwise` where nobody can tell right now."""
    try:
        status = os.stat(path)  # noqa: PTH116 - twice in each transaction, so in a third of the time
    except FileNotFoundError:
        return None
    except OSError:
        return otherwise
    return status.st_dev, status.st_ino
