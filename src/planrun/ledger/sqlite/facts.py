"""What `planrun check` says of a ledger's file, without writing to it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import apsw

from planrun.config import Place
from planrun.ledger.sqlite.database import connect, refusals_in_words, refuse_unsafe
from planrun.ledger.sqlite.migrating import pending, schema_known


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerFacts:
    """Attributes:
    engine: Name and version of the database library.
    schema: Number of the newest migration in the file.
    schema_known: Number of the newest migration that this planrun knows.
    bytes: Size of the file, with its write-ahead log.
    missing: The migrations that it lacks: number, name, and what each is for.
    """

    engine: str
    schema: int
    schema_known: int
    bytes: int
    missing: tuple[tuple[int, str, str], ...]


def facts_of(place: Place) -> LedgerFacts:
    """Read the facts of an existing ledger.

    Raises:
        LedgerUnusable: The file must not be opened here; says why.
        LedgerUnavailable: It gives no answer now; says why.
    """
    path = place.ledger
    with refusals_in_words(path):
        refuse_unsafe(place)
        with contextlib.closing(connect(path, read_only=True)) as connection:
            schema = connection.pragma("user_version")
            missing = pending(connection, path)
    files = (path, path.with_name(f"{path.name}-wal"))
    return LedgerFacts(
        engine=f"SQLite {apsw.sqlite_lib_version()}",
        schema=schema,
        schema_known=schema_known(),
        missing=tuple((migration.number, migration.word, migration.sentence) for migration in missing),
        bytes=sum(file.stat().st_size for file in files if file.exists()),
    )
