"""What a job printed, read from its beginning on while somebody still writes to it."""

from __future__ import annotations

import asyncio
import codecs
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from planrun.config import Place
from planrun.core.messages import JobRow
from planrun.core.names import attempt_prefix, live_log_prefix, log_key
from planrun.core.printed import LogPiece
from planrun.ledger.contract import Ledger
from planrun.storage.contract import Store


@dataclass(frozen=True, slots=True)
class LogPart:
    """Text that one attempt printed."""

    attempt: int
    text: str


class Logs(Protocol):
    """The logs of a ledger's jobs."""

    async def log_piece(self, row: JobRow, *, attempt: int | None, after: int) -> LogPiece:
        """What an attempt has printed behind that many bytes. One that printed nothing has an empty log.

        Args:
            attempt: None: the newest one that printed something, else the newest.
        """
        ...


class LocalLogs:
    """Those of this box; and those in the store, where a fleet's workers put them: while an attempt runs, in pieces."""

    def __init__(self, place: Place, ledger: Ledger, store: Store) -> None:
        self._place = place
        self._ledger = ledger
        self._store = store

    async def log_piece(self, row: JobRow, *, attempt: int | None, after: int) -> LogPiece:
        piece = await asyncio.to_thread(self._piece, row, attempt, after)
        return piece if piece.end else await self._stored_piece(row, attempt, after) or piece

    async def _stored_piece(self, row: JobRow, attempt: int | None, after: int) -> LogPiece | None:
        for each in reversed(await self._ledger.attempts(row.job_id)):
            if attempt not in (None, each.attempt):
                continue
            prefix = attempt_prefix(row.namespace, row.job_id, each.attempt, each.token)
            data = None if each.outcome is None else await asyncio.to_thread(self._store.read, log_key(prefix))
            if data is not None:
                return LogPiece(attempt=each.attempt, data=data[after:], end=len(data))
            if (found := await asyncio.to_thread(self._live_piece, prefix, each.attempt, after)) is not None:
                return found
        return None

    def _live_piece(self, prefix: str, attempt: int, after: int) -> LogPiece | None:
        """Of an attempt that runs, or whose worker was lost with its log."""
        pieces = {int(key.rpartition("/")[2]): key for key in self._store.keys(live_log_prefix(prefix))}
        if not pieces:
            return None
        first = max((start for start in pieces if start <= after), default=0)
        text = b"".join(self._store.read(pieces[start]) or b"" for start in sorted(pieces) if start >= first)
        return LogPiece(attempt=attempt, data=text[after - first :], end=first + len(text))

    def _piece(self, row: JobRow, attempt: int | None, after: int) -> LogPiece:
        number = self._newest(row) if attempt is None else attempt
        try:
            with self._place.log_of(row.job_id, number).open("rb") as file:
                size = file.seek(0, 2)
                file.seek(min(after, size))
                data = file.read()
        except (FileNotFoundError, NotADirectoryError):
            size, data = 0, b""
        return LogPiece(attempt=number, data=data, end=size if size < after else after + len(data))

    def _newest(self, row: JobRow) -> int:
        logs = ((number, self._place.log_of(row.job_id, number)) for number in range(row.attempt, 0, -1))
        return next((number for number, path in logs if _has_text(path)), row.attempt)


class LogTail:
    """One log, each byte once. A log that was cut to its limit goes on at its end."""

    def __init__(self, logs: Logs, row: JobRow, attempt: int) -> None:
        self._logs = logs
        self._row = row
        self._attempt = attempt
        self._at = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    async def read(self, *, last: bool = False) -> str:
        """What was added since the last call.

        Args:
            last: Nothing more will be added: a character that is cut off is shown as such.
        """
        piece = await self._logs.log_piece(self._row, attempt=self._attempt, after=self._at)
        self._at = piece.end
        return self._decoder.decode(piece.data, last)


def _has_text(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except (FileNotFoundError, NotADirectoryError):
        return False
