"""Bringing a ledger's schema up to date, and what an older planrun may still do afterwards.

Most migrations add: every statement of an older planrun still does the same, so its open processes go on. One that
does not says `-- Breaking: …` in its text. From then on an older planrun that has the ledger open takes no job in and
starts none (`ledger.verbs.versions`); what it runs may end. None opens a ledger that is newer than itself.
"""

from __future__ import annotations

import contextlib
import logging
import re
import time
import uuid
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import apsw

from planrun.config import Place
from planrun.core.errors import LedgerUnusable
from planrun.ledger.sqlite.database import (
    APPLICATION_ID,
    back_up,
    connect,
    refusals_in_words,
    refuse_foreign,
    refuse_unsafe,
    statement,
)
from planrun.ledger.sqlite.turnstile import Turnstile
from planrun.ledger.verbs.versions import SCHEMA_MIN

log = logging.getLogger(__name__)

_NAME = re.compile(r"(?P<number>\d{4})_(?P<word>[a-z_]+)\.sql")
_BREAKING = re.compile(r"^-- Breaking: ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    word: str
    text: str

    @property
    def is_breaking(self) -> bool:
        """Must an older planrun start no work any more?"""
        return _BREAKING.search(self.text) is not None

    @property
    def sentence(self) -> str:
        """What it is for: the first line of its text."""
        return self.text.partition("\n")[0].removeprefix("-- ")


@cache
def migrations() -> tuple[Migration, ...]:
    """Every migration that this planrun knows, in order."""
    folder = resources.files("planrun.ledger") / "migrations" / "sqlite"
    found = [(match, entry) for entry in folder.iterdir() if (match := _NAME.fullmatch(entry.name))]
    return tuple(
        Migration(int(match["number"]), match["word"], entry.read_text())
        for match, entry in sorted(found, key=lambda pair: pair[1].name)
    )


def schema_known() -> int:
    """Number of the newest migration that this planrun knows."""
    return migrations()[-1].number


def is_current(path: Path) -> bool:
    """Does this file hold a ledger of exactly the schema that this planrun writes?

    Raises:
        apsw.NotADBError: It is no database.
        LedgerUnusable: It is another program's.
    """
    try:
        with contextlib.closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
            connection.set_busy_timeout(2_000)
            connection.execute("BEGIN")  # one moment of a file that another process may be founding just now
            refuse_foreign(connection, path)
            ours = connection.pragma("application_id") == APPLICATION_ID
            wal = connection.pragma("journal_mode") == "wal"
            return bool(ours and wal and connection.pragma("user_version") == schema_known())
    except apsw.NotADBError:
        raise
    except apsw.Error:
        return False  # opening it in turn says what is wrong


def pending(connection: apsw.Connection, path: Path) -> tuple[Migration, ...]:
    """What a ledger lacks, in order.

    Raises:
        LedgerUnusable: It was written by a newer planrun.
    """
    at = connection.pragma("user_version")
    if at > schema_known():
        raise LedgerUnusable(
            f"{path} was written by a newer planrun (schema {at}, this one knows {schema_known()}); "
            "upgrade planrun here"
        )
    return tuple(migration for migration in migrations() if migration.number > at)


def migrate(connection: apsw.Connection, path: Path) -> None:
    """Bring the schema to the newest version that this planrun knows. The caller holds the turnstile.

    Each migration is one transaction: after a crash or on a full disk the ledger is as it was before.

    Raises:
        LedgerUnusable: The file was written by a newer planrun.
    """
    for migration in pending(connection, path):
        is_old = migration.number > 1 and not _is_empty(connection)
        if is_old:
            log.warning("upgrading %s to schema %d (%s) …", path, migration.number, migration.word)
        began_s = time.monotonic()
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.execute(migration.text)
            if migration.number == 1:
                _found(connection)
            if migration.is_breaking:
                _set(connection, SCHEMA_MIN, migration.number)
            connection.pragma("user_version", migration.number)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        if is_old:
            log.warning("… done in %.1f s", time.monotonic() - began_s)


def upgrade(place: Place, *, backup: Path | None, wait_s: float) -> None:
    """Bring an existing ledger up to date while nobody else writes.

    Args:
        backup: Copy it there before; None: do not. Not made if there is nothing to do.
        wait_s: How long to wait for the turn.

    Raises:
        Invalid: The copy cannot be made there. Nothing was changed.
        LedgerUnusable: The file must not be opened here; says why.
        LedgerUnavailable: Another process holds the ledger, or the copy failed. Nothing was changed.
    """
    with refusals_in_words(place.ledger):
        refuse_unsafe(place)
        with (
            contextlib.closing(Turnstile(place.turn)) as turnstile,
            turnstile.turn(wait_s=wait_s),
            contextlib.closing(connect(place.ledger)) as connection,
        ):
            if backup is not None and pending(connection, place.ledger):
                back_up(connection, backup)
            migrate(connection, place.ledger)


def _is_empty(connection: apsw.Connection) -> bool:
    return not connection.execute("SELECT 1 FROM job LIMIT 1").fetchall()


def _found(connection: apsw.Connection) -> None:
    """The facts that a new ledger begins with."""
    connection.pragma("application_id", APPLICATION_ID)
    facts: dict[str, Any] = {"ledger_uuid": str(uuid.uuid4()), "generation": 1, "next_n": 0}
    for name, value in facts.items():
        _set(connection, name, value)


def _set(connection: apsw.Connection, name: str, value: Any) -> None:
    connection.execute(statement("set_meta"), {"k": name, "v": value})
