"""What a job printed, read from its file while somebody still writes to it."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class LogPart:
    """Text that one attempt printed."""

    attempt: int
    text: str


def has_text(path: Path) -> bool:
    """Has this log been written to, on this box?"""
    try:
        return path.stat().st_size > 0
    except (FileNotFoundError, NotADirectoryError):
        return False


class LogTail:
    """One log file, read from its beginning on, each byte once. A file that is not there yet is empty."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def read(self, *, last: bool = False) -> str:
        """What was added since the last call. A log that was cut to its limit goes on at its end.

        Args:
            last: Nothing more will be added: a character that is cut off is shown as such.
        """
        try:
            with self._path.open("rb") as file:
                size = file.seek(0, 2)
                file.seek(min(self._at, size))
                data = file.read()
        except (FileNotFoundError, NotADirectoryError):
            size, data = 0, b""
        self._at = size if size < self._at else self._at + len(data)
        return self._decoder.decode(data, last)
