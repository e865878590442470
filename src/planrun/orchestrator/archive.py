"""Records of jobs that have left the ledger: one file of NDJSON per day on which they ended, only ever appended to.

A record is durable before its job leaves the ledger, so a crash in between gives a line twice, never none.
A line that was cut off by a crash was never durable: it is taken away by whoever appends next.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from planrun.core.errors import StorageError
from planrun.core.keeping import Record, archive_file
from planrun.folders import fsync_folder, held_alone


class Archive:
    """One folder. Several processes may share it: one at a time appends."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Hold the archive, if nobody does. It goes with the process that holds it.

        Raises:
            StorageError: There can be no such folder.
        """
        with self._in_words():
            self._root.mkdir(exist_ok=True)
            handle = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with held_alone(handle) as is_ours:
            yield is_ours

    def add(self, records: Sequence[Record]) -> None:
        """Append, durable on return. Only for who holds the archive.

        Raises:
            StorageError: It could not be written; whole lines that got there are repeated by the next try.
        """
        lines = defaultdict(list)
        for record in records:
            lines[archive_file(record.ended_at_ms)].append(f"{record.line}\n")
        with self._in_words():
            for name, texts in lines.items():
                _append(self._root / name, "".join(texts).encode())
            fsync_folder(self._root)
            fsync_folder(self._root.parent)

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(
                f"the archive {self._root} cannot be written ({error.strerror}): make room or way for it there; "
                "no job was dropped"
            ) from error


def _append(path: Path, text: bytes) -> None:
    with path.open("ab+") as file:
        _cut_off(file.fileno())
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _cut_off(fd: int) -> None:
    """Take away what stands behind the last whole line."""
    end = os.fstat(fd).st_size
    at = end
    while at > 0:
        start = max(0, at - 65_536)
        newline = os.pread(fd, at - start, start).rfind(b"\n")
        if newline >= 0:
            at = start + newline + 1
            break
        at = start
    if at != end:
        os.ftruncate(fd, at)
