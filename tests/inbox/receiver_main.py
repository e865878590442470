"""A receiver: books one message in the database that is named, and says so. A test may hold it still on the way."""

from __future__ import annotations

import sqlite3
import sys
from typing import Any

import psycopg

from planrun.inbox import Inbox
from planrun.trip import trip


def connect(database: str) -> Any:
    """A connection as an application has it: a transaction begins with the first statement."""
    if database.startswith("/"):
        return sqlite3.connect(database, timeout=30)
    return psycopg.connect(database)


def main(database: str, msg_id: str) -> None:
    connection = connect(database)
    is_new = Inbox(connection).once(msg_id)
    trip("receiver:written-down")
    if is_new:
        connection.cursor().execute("UPDATE account SET balance = balance + 1")
    trip("receiver:acted")
    connection.commit()
    trip("receiver:committed")
    print("new" if is_new else "known", flush=True)  # this is its acknowledgment


if __name__ == "__main__":
    main(*sys.argv[1:])
