"""Opening the file: which SQLite, which filesystem, which schema, which pragmas."""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Iterator
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import apsw

from planrun.core.errors import LedgerUnusable

APPLICATION_ID = 0x706C616E  # "plan", in the file's header
SQLITE_VERSION_MIN = (3, 51, 3)
_NETWORK_FILESYSTEMS = frozenset(
    (
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "9p",
        "afs",
        "ceph",
        "glusterfs",
        "lustre",
        "gpfs",
        "ocfs2",
        "fuse.sshfs",
        "fuse.glusterfs",
        "fuse.cephfs",
    )
)
_MIGRATION = re.compile(r"(\d{4})_[a-z_]+\.sql")


@cache
def statement(name: str) -> str:
    """The text of a verb's statement."""
    return (resources.files("planrun.ledger") / "sql" / "sqlite" / f"{name}.sql").read_text()


@cache
def prepared(name: str) -> tuple[str, bool]:
    """A statement's text, and whether it can give rows."""
    text = statement(name)
    return text, "RETURNING" in text or not re.search(r"^(INSERT|UPDATE|DELETE) ", text, re.MULTILINE)


@cache
def migrations() -> tuple[tuple[int, str], ...]:
    """Every migration: its number and text, in order."""
    folder = resources.files("planrun.ledger") / "migrations" / "sqlite"
    found = [(entry.name, entry.read_text()) for entry in folder.iterdir() if _MIGRATION.fullmatch(entry.name)]
    return tuple((int(name[:4]), text) for name, text in sorted(found))


def refuse_unsafe(path: Path) -> None:
    """Refuse what would corrupt the ledger or break its locks.

    Raises:
        LedgerUnusable: A SQLite with the WAL-reset bug (two connections that write and checkpoint at once may
            corrupt the file), or a filesystem whose locks do not reach other processes.
    """
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if version < SQLITE_VERSION_MIN and version not in {(3, 44, 6), (3, 50, 7)}:
        raise LedgerUnusable(
            f"SQLite {apsw.sqlite_lib_version()} can corrupt a file that several processes write (the WAL-reset bug); "
            "install apsw 3.51.3 or newer"
        )
    if not path.parent.is_dir():
        raise LedgerUnusable(f"there is no folder {path.parent}; create it, or choose another place with --url")
    if path.is_dir():
        raise LedgerUnusable(f"{path} is a folder; name a file in it, such as {path / 'planrun.db'}")
    kind = filesystem_of(path.parent)
    if kind in _NETWORK_FILESYSTEMS:
        raise LedgerUnusable(
            f"{path} lies on a network filesystem ({kind}), whose locks are not safe for SQLite; use a local disk"
        )


@contextlib.contextmanager
def refusals_in_words() -> Iterator[None]:
    """What the system refuses while a ledger is opened.

    Raises:
        LedgerUnusable: In place of the system's error.
    """
    try:
        yield
    except OSError as error:
        raise LedgerUnusable(
            f"{error.filename} cannot be opened: {error.strerror}; "
            "planrun must be able to write the ledger and its folder"
        ) from None


def filesystem_of(folder: Path) -> str:
    """The type of the filesystem that holds a folder, empty if the system does not tell."""
    try:
        mounts = Path("/proc/self/mounts").read_text()
    except OSError:
        return ""
    found, length = "", -1
    for line in mounts.splitlines():
        _, point, kind, *_ = line.split()
        point = point.encode().decode("unicode_escape")
        if len(point) > length and folder.resolve().is_relative_to(point):
            found, length = kind, len(point)
    return found


def connect(path: Path, *, read_only: bool = False) -> apsw.Connection:
    """A connection with the pragmas that the promise needs.

    Raises:
        LedgerUnusable: The file cannot be opened, or is something else.
    """
    try:
        connection = apsw.Connection(str(path))
        connection.set_busy_timeout(2_000)
        if connection.pragma("journal_mode") != "wal":
            connection.pragma("journal_mode", "wal")
        connection.pragma("synchronous", "full")
        connection.pragma("foreign_keys", "on")
        connection.pragma("query_only", "on" if read_only else "off")
        connection.pragma("fullfsync", "on")  # macOS only; ignored elsewhere
    except apsw.NotADBError:
        raise LedgerUnusable(f"{path} is not a SQLite file; choose another place with --url") from None
    except apsw.CantOpenError as error:
        raise LedgerUnusable(f"{path} cannot be opened ({error}); is the folder writable for you?") from None
    except apsw.ReadOnlyError:
        raise LedgerUnusable(f"{path} is read-only for you; planrun must be able to write it and its folder") from None
    return connection


def is_current(path: Path) -> bool:
    """Does this file hold a ledger of exactly the schema that this planrun writes?"""
    try:
        with contextlib.closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
            connection.set_busy_timeout(2_000)
            ours = connection.pragma("application_id") == APPLICATION_ID
            wal = connection.pragma("journal_mode") == "wal"
            return bool(ours and wal and connection.pragma("user_version") == migrations()[-1][0])
    except apsw.Error:
        return False  # opening it in turn says what is wrong


def migrate(connection: apsw.Connection, path: Path) -> None:
    """Bring the schema to the newest version that this planrun knows. The caller holds the turnstile.

    Raises:
        LedgerUnusable: The file is another program's, or was written by a newer planrun.
    """
    known = migrations()
    newest = known[-1][0]
    at = connection.pragma("user_version")
    if at > newest:
        raise LedgerUnusable(
            f"{path} was written by a newer planrun (schema {at}, this one knows {newest}); upgrade planrun here"
        )
    if at == 0 and connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall():
        raise LedgerUnusable(f"{path} is a database of another program; choose another place with --url")
    for number, text in known:
        if number <= at:
            continue
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.execute(text)
            if number == 1:
                _found(connection)
            connection.pragma("user_version", number)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def copy_whole(source: apsw.Connection, path: Path) -> None:
    """Copy one moment of a ledger into an empty file, and look through the copy.

    Raises:
        apsw.Error: It was not copied, or what was copied is damaged.
    """
    target = apsw.Connection(str(path))
    try:
        source.execute("BEGIN")  # else each commit of another process would make the copy begin again
        try:
            source.execute("SELECT k FROM meta").fetchall()
            with target.backup("main", source, "main") as copying:
                while not copying.done:
                    copying.step(1000)
        finally:
            source.execute("COMMIT")
        found = target.pragma("integrity_check")
        if found != "ok":
            raise apsw.CorruptError(f"the ledger is damaged: {found}")
    finally:
        target.close()


def _found(connection: apsw.Connection) -> None:
    """The facts that a new ledger begins with."""
    connection.pragma("application_id", APPLICATION_ID)
    facts: dict[str, Any] = {"ledger_uuid": str(uuid.uuid4()), "generation": 1, "next_n": 0}
    connection.executemany("INSERT INTO meta(k, v) VALUES (?, ?)", facts.items())
