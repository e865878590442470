"""The rows of a simulated ledger, as they lie in its file: no shipped code stands between them and the oracle."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

JOB = """SELECT state, attempt, token, failures, max_attempts, losses, max_losses, handbacks, max_handbacks, closing,
  incarnation FROM job WHERE job_id = ?"""
ATTEMPTS = "SELECT attempt, token, incarnation, outcome FROM attempt WHERE job_id = ? ORDER BY attempt"
TOKENS = "SELECT job_id, attempt, token FROM attempt"
RESULT = "SELECT attempt, token, status, outputs, value, error FROM result WHERE job_id = ?"
EVENTS = "SELECT id, job_id, what, attempt, who, detail FROM event WHERE id > ? ORDER BY id"


class Rows:
    """Reads them, by a connection of its own."""

    def __init__(self, path: Callable[[], Path]) -> None:
        """
        Args:
            path: Where the file lies that is the ledger now.
        """
        self._path = path
        self._reader: apsw.Connection | None = None

    def __call__(self, text: str, *values: Any) -> list[tuple[Any, ...]]:
        """What a statement gives."""
        if self._reader is None:
            self._reader = apsw.Connection(str(self._path()), flags=apsw.SQLITE_OPEN_READWRITE)
            self._reader.pragma("query_only", "on")
        return self._reader.execute(text, values).fetchall()

    def close(self) -> None:
        """It is opened again when it is needed."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
