"""Opening the file: which SQLite, which filesystem, whose database, which pragmas."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from functools import cache
from importlib import resources
from pathlib import Path

import apsw

from planrun.config import TRUSTED, Place
from planrun.core.errors import Invalid, LedgerUnavailable, LedgerUnusable

APPLICATION_ID = 0x706C616E  # "plan", in the file's header
SQLITE_VERSION_MIN = (3, 51, 3)
BUSY_MS = 2_000  # how long a thread waits for a lock from outside, at a time
# Other machines, or the host of this one, write such a filesystem too, and its locks do not reach them.
_SHARED_FILESYSTEMS = frozenset((
    "9p", "afs", "beegfs", "ceph", "cifs", "davfs", "fakeowner", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4",
    "ocfs2", "orangefs", "prl_fs", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs",
))  # fmt: skip
_LOCAL_FUSE = frozenset(("fuse.bindfs", "fuse.fuse-overlayfs", "fuse.gocryptfs", "fuse.mergerfs"))


@cache
def statement(name: str) -> str:
    """The text of a verb's statement."""
    return (resources.files("planrun.ledger") / "sql" / "sqlite" / f"{name}.sql").read_text()


@cache
def prepared(name: str) -> tuple[str, bool]:
    """A statement's text, and whether it can give rows."""
    text = statement(name)
    return text, "RETURNING" in text or not re.search(r"^(INSERT|UPDATE|DELETE) ", text, re.MULTILINE)


def refuse_unsafe(place: Place) -> None:
    """Refuse what would corrupt the ledger or break its locks.

    Raises:
        LedgerUnusable: A SQLite with the WAL-reset bug (two connections that write and checkpoint at once may
            corrupt the file), or a filesystem whose locks do not reach other processes.
    """
    path = place.ledger
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
    shared = kind in _SHARED_FILESYSTEMS or (kind.startswith("fuse.") and kind not in _LOCAL_FUSE)
    if shared and not place.filesystem_trusted:
        raise LedgerUnusable(
            f"{path} lies on a network or shared filesystem ({kind}), whose locks are not safe for SQLite; "
            f"use a local disk (or, if you know that they reach everybody: --url 'sqlite:///{path}{TRUSTED}')"
        )


@contextlib.contextmanager
def refusals_in_words(path: Path) -> Iterator[None]:
    """What the system or the database refuses while a ledger is opened.

    Raises:
        LedgerUnusable: In place of such an error, where asking again would not help.
        LedgerUnavailable: In place of any other.
    """
    try:
        yield
    except OSError as error:
        raise LedgerUnusable(
            f"{error.filename} cannot be opened: {error.strerror}; "
            "planrun must be able to write the ledger and its folder"
        ) from None
    except apsw.NotADBError:
        raise LedgerUnusable(f"{path} is not a SQLite file; choose another place with --url") from None
    except apsw.CantOpenError as error:
        raise LedgerUnusable(f"{path} cannot be opened ({error}); is the folder writable for you?") from None
    except apsw.ReadOnlyError:
        raise LedgerUnusable(f"{path} is read-only for you; planrun must be able to write it and its folder") from None
    except apsw.Error as error:
        raise LedgerUnavailable(trouble(path, error)) from None


def trouble(path: Path, error: BaseException) -> str:
    """What is wrong with a ledger that gives no answer, and what to do."""
    match error:
        case apsw.FullError():
            return f"the disk of {path} is full: free some space; nothing was written"
        case apsw.BusyError():
            return f"{path} is locked by a program that is not planrun: close it and try again; nothing was written"
        case apsw.CorruptError() | apsw.NotADBError():
            return f"{path} is damaged ({error}): stop what uses it, keep a copy, and restore a backup"
        case apsw.IOError():
            return f"{path} cannot be read or written ({error}): look at its disk; nothing was written"
        case apsw.ReadOnlyError() | apsw.CantOpenError():
            return f"{path} can no longer be written ({error}): look at the rights of the file and its folder"
        case _:
            return f"{path}: {error!r}"


def filesystem_of(folder: Path) -> str:
    """The type of the filesystem that holds a folder, empty if the system does not tell."""
    try:
        mounts = Path("/proc/self/mounts").read_bytes()
    except OSError:
        return ""
    folder = folder.resolve()
    found, length = "", -1
    for line in mounts.split(b"\n")[:-1]:
        _, escaped, kind, *_ = line.split(b" ")
        point = os.fsdecode(escaped.decode("unicode_escape").encode("latin-1"))
        # Of two at one place the later one lies on top: a network filesystem on what mounts it when it is asked for.
        if len(point) >= length and folder.is_relative_to(point):
            found, length = os.fsdecode(kind), len(point)
    return found


def connect(path: Path, *, read_only: bool = False) -> apsw.Connection:
    """A connection with the pragmas that the promise needs.

    Raises:
        LedgerUnusable: It is another program's.
        apsw.Error: It cannot be opened; `refusals_in_words` says why.
    """
    connection = apsw.Connection(str(path))
    if connection.readonly("main"):
        raise apsw.ReadOnlyError
    connection.set_busy_timeout(BUSY_MS)
    refuse_foreign(connection, path)
    if connection.pragma("journal_mode") != "wal":
        connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "full")
    connection.pragma("foreign_keys", "on")
    # One plan per statement, whatever its values: else each execution with other values compiles it anew.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.pragma("temp_store", "memory")  # triggers keep what they may undo: not in a file, per statement
    connection.pragma("query_only", "on" if read_only else "off")
    connection.pragma("fullfsync", "on")  # macOS only; ignored elsewhere
    return connection


def back_up(source: apsw.Connection, path: Path) -> None:
    """Copy one moment of a ledger into a new file, and look through the copy.

    Raises:
        Invalid: There is a file already, or none can be made there. Nothing was written.
        LedgerUnavailable: It was not copied, or what was copied is damaged. Nothing is left of it.
    """
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        raise Invalid(f"{path} exists; a backup never overwrites: choose another name") from None
    except OSError as error:
        raise Invalid(f"{path} cannot be written ({error.strerror}); choose another place") from None
    try:
        _copy_whole(source, path)
    except apsw.Error as error:
        path.unlink()
        why = (
            "its disk is full; free some space, or choose another" if isinstance(error, apsw.FullError) else repr(error)
        )
        raise LedgerUnavailable(f"the backup to {path} failed: {why}; the ledger goes on") from None


def refuse_foreign(connection: apsw.Connection, path: Path) -> None:
    """Leave another program's database as it is. An empty one is nobody's yet.

    Raises:
        LedgerUnusable: It is another program's.
    """
    if connection.pragma("application_id") == APPLICATION_ID:
        return
    if connection.pragma("user_version") or connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall():
        raise LedgerUnusable(f"{path} is a database of another program; choose another place with --url")


def _copy_whole(source: apsw.Connection, path: Path) -> None:
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
        target.execute(statement("mark_copy"))
        found = target.pragma("integrity_check")
        if found != "ok":
            raise apsw.CorruptError(f"the ledger is damaged: {found}")
    finally:
        target.close()
