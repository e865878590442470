"""What the app does with an answer: one line in its books, once, however often the answer comes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from planrun.inbox import Inbox, Received

SCHEMA = "CREATE TABLE IF NOT EXISTS booking(job TEXT NOT NULL, state TEXT NOT NULL, value TEXT, told_by TEXT NOT NULL)"


class Books:
    """The app's own database. Every call has a connection of its own, so threads may share this."""

    def __init__(self, database: Path) -> None:
        self._database = database
        with closing(self._connect()) as connection, connection:
            Inbox(connection).create()
            connection.execute(SCHEMA)

    def book(self, answer: Received) -> bool:
        """Write it down, unless that was done before: the id and the line in one transaction.

        Returns:
            It was new. On return it is durable, so the answer may be acknowledged either way.
        """
        with closing(self._connect()) as connection, connection:
            is_new = Inbox(connection).once(answer.msg_id)
            if is_new:
                line = (answer.result.job_id, answer.result.state, repr(answer.result.value), answer.msg_id)
                connection.execute("INSERT INTO booking VALUES (?, ?, ?, ?)", line)
        return is_new

    def lines(self) -> list[dict[str, Any]]:
        with closing(self._connect()) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute("SELECT * FROM booking ORDER BY rowid")]

    def forget(self) -> None:
        """What came more than 14 days ago does not come again. Once a day is often enough."""
        with closing(self._connect()) as connection, connection:
            Inbox(connection).prune()

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._database, timeout=30)
