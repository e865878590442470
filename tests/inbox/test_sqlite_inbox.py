"""The inbox in a SQLite file, through Python's own sqlite3."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from planrun.core.errors import Invalid
from planrun.inbox import Inbox

from .inbox_contract import InboxContract


class TestSqliteInbox(InboxContract):
    @pytest.fixture
    def database(self, tmp_path: Path) -> str:
        return str(tmp_path / "app.db")

    def test_without_a_transaction_nothing_is_written_down(self, database: str) -> None:
        """Else the id would be kept while the effect is not."""
        connection = sqlite3.connect(database, isolation_level=None)
        inbox = Inbox(connection)
        inbox.create()

        with pytest.raises(Invalid, match="no transaction is open"):
            inbox.once("a")
        connection.execute("BEGIN")
        assert inbox.once("a")
        connection.execute("ROLLBACK")
        connection.execute("BEGIN")
        assert inbox.once("a")
        connection.close()


def test_what_is_no_connection_is_said() -> None:
    with pytest.raises(Invalid, match=r"is no connection that an inbox can use .* give the connection of the driver"):
        Inbox(object())  # type: ignore[arg-type]
