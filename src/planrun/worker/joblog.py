"""What a job prints, kept within bounds: the first half and the last half of the limit.

The file is readable at any time. While the job runs it may hold half a limit more; `close` cuts it to size.
Imported by the launcher, which must start fast.
"""

from __future__ import annotations

import os


class JobLog:
    """Takes everything, never fails: what the disk refuses is counted and left out."""

    def __init__(self, path: str, bytes_max: int) -> None:
        self._half = max(bytes_max // 2, 1)
        self._head = 0  # bytes of the first half written so far
        self._tail = 0  # bytes behind it, the notice not counted
        self._left_out = 0
        self._said = 0  # of it, in the file
        self._path = path
        self._file = -1

    def write(self, data: bytes) -> None:
        if self._file < 0:
            self._file = _open(self._path)
        if self._head < self._half:
            first, data = data[: self._half - self._head], data[self._half - self._head :]
            self._head += self._append(first)
        if data:
            self._tail += self._append(data)
            if self._tail > 2 * self._half:
                self._compact()

    def close(self) -> None:
        """Cut the file to its limit, and say in it what was left out."""
        if self._file < 0:
            return
        if self._tail > self._half:
            self._compact()
        elif self._left_out > self._said:  # what a full disk refused
            self._say_what_is_left_out()
        os.close(self._file)

    def _compact(self) -> None:
        """Keep the newest half of the limit behind the first one, from the start of a line."""
        try:
            size = os.fstat(self._file).st_size
            kept = os.pread(self._file, self._half + 1, size - self._half - 1)
            kept = kept[kept.find(b"\n") + 1 or 1 :]
            self._left_out += self._tail - len(kept)
            os.ftruncate(self._file, self._head)
        except OSError:
            return
        self._say_what_is_left_out()
        self._tail = self._append(kept)

    def _say_what_is_left_out(self) -> None:
        self._said = self._left_out
        self._append(f"\n… {self._said} bytes left out …\n".encode())

    def _append(self, data: bytes) -> int:
        """How much of it was written: all, unless the disk is full."""
        written = 0
        try:
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError:
            self._left_out += len(data) - written
        return written


def _open(path: str) -> int:
    """A job that prints nothing has no log: most of a million short ones would be empty files."""
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120 - pathlib would double the start-up time
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError:
        return os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
