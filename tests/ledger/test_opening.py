"""Which files are opened, which are refused with a reason, and what a backup is worth."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import Any

import apsw
import pytest

from planrun.core.errors import Invalid, LedgerUnavailable, LedgerUnusable
from planrun.ledger.contract import Ledger
from planrun.ledger.sqlite import database
from planrun.wiring import open_ledger
from tests.small_disk import small_disk

from .plain import a_party, a_request

pytestmark = pytest.mark.anyio


async def test_a_ledger_is_made_where_there_is_none(ledger: Ledger, path: Path) -> None:
    assert sum((await ledger.counts(None)).values()) == 0
    assert is_there(path)


async def test_every_commit_is_on_the_disk_before_it_is_answered(ledger: Ledger, path: Path) -> None:
    """With anything less than FULL a power cut takes back what was promised."""
    connection = database.connect(path)

    assert connection.pragma("synchronous") == 2
    assert connection.pragma("journal_mode") == "wal"


async def test_a_statement_is_compiled_once_whatever_its_values(ledger: Ledger, path: Path) -> None:
    """Else SQLite, as apsw has it, looks for a better plan each time: `offers` takes ten times as long."""
    for connection in (database.connect(path), database.connect(path, read_only=True)):
        assert connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, -1) == 1


async def test_a_reopened_ledger_knows_everything(url: str) -> None:
    first = open_ledger(url)
    [reply] = await first.submit([a_request("r1")])
    await first.close()

    second = open_ledger(url)
    row = await second.job(None, reply.job_id)
    await second.close()

    assert row is not None
    assert row.created_at_ms > 0


@pytest.mark.parametrize("version", [0, 1, 99])
async def test_another_programs_database_is_refused_and_left_alone(url: str, path: Path, version: int) -> None:
    """Many programs number their schemas, as planrun does."""
    with apsw.Connection(str(path)) as connection:
        connection.execute("CREATE TABLE songs(title)")
        connection.pragma("user_version", version)
    connection.close()
    before = path.read_bytes()

    with pytest.raises(LedgerUnusable, match="another program"):
        open_ledger(url)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


async def test_an_empty_file_becomes_a_ledger(url: str, path: Path) -> None:
    path.touch()

    await open_ledger(url).close()


async def test_a_file_that_is_no_database_is_refused(url: str, path: Path) -> None:
    fill(path, "a shopping list, long enough to be looked at as a header by anybody who cares\n" * 20)

    with pytest.raises(LedgerUnusable, match="not a SQLite file"):
        open_ledger(url)
    assert list(path.parent.iterdir()) == [path], "nothing is left beside a file that was named by mistake"


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(LedgerUnusable, match=r"no folder .*missing"):
        open_ledger(f"sqlite:///{tmp_path}/missing/ledger.db")


@pytest.mark.parametrize("version", ["3.7.0", "3.40.1", "3.44.5", "3.50.6", "3.51.2"])
async def test_a_sqlite_with_the_wal_reset_bug_is_refused(
    monkeypatch: pytest.MonkeyPatch, url: str, path: Path, version: str
) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: version)

    with pytest.raises(LedgerUnusable, match=rf"SQLite {version}.*3\.51\.3"):
        open_ledger(url)
    assert not is_there(path)


@pytest.mark.parametrize("version", ["3.44.6", "3.50.7", "3.51.3", "3.54.0", "4.0.0"])
async def test_a_sqlite_with_the_fix_is_taken(monkeypatch: pytest.MonkeyPatch, url: str, version: str) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: version)

    await open_ledger(url).close()


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "9p", "virtiofs", "fuse.sshfs", "fuse.never-heard-of"])
async def test_a_network_filesystem_is_refused_unless_somebody_vouches_for_it(
    monkeypatch: pytest.MonkeyPatch, url: str, path: Path, kind: str
) -> None:
    monkeypatch.setattr(database, "filesystem_of", lambda folder: kind)

    with pytest.raises(LedgerUnusable, match=rf"network or shared filesystem \({kind}\).*local disk"):
        open_ledger(url)
    assert not is_there(path)
    await open_ledger(f"{url}?filesystem=trusted").close()
    assert is_there(path)


@pytest.mark.parametrize("kind", ["ext4", "overlay", "fuseblk", "fuse.fuse-overlayfs"])
async def test_a_local_filesystem_is_taken(monkeypatch: pytest.MonkeyPatch, url: str, kind: str) -> None:
    monkeypatch.setattr(database, "filesystem_of", lambda folder: kind)

    await open_ledger(url).close()


@pytest.mark.parametrize("option", ["?filesystem=trusting", "?mode=ro", "?"])
async def test_an_address_with_another_option_is_refused(url: str, option: str) -> None:
    with pytest.raises(Invalid, match="no options but"):
        open_ledger(url + option)


@pytest.mark.parametrize("damage", ["truncated", "overwritten"])
async def test_a_damaged_ledger_is_named_as_such_and_left_as_it_is(url: str, path: Path, damage: str) -> None:
    await open_ledger(url).close()
    whole = path.read_bytes()
    path.write_bytes(whole[:20_000] if damage == "truncated" else whole[:4096] + b"x" * len(whole[4096:]))
    before = path.read_bytes()

    with pytest.raises(LedgerUnavailable, match=r"is damaged.*restore a backup"):
        open_ledger(url)
    assert path.read_bytes() == before


def test_the_innermost_mount_says_what_filesystem_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    inner = tmp_path / "with space"
    inner.mkdir()
    mounted(monkeypatch, (Path("/"), "ext4"), (tmp_path, "nfs4"), (inner, "xfs"))

    assert database.filesystem_of(Path("/")) == "ext4"
    assert database.filesystem_of(tmp_path) == "nfs4"
    assert database.filesystem_of(inner) == "xfs"


def test_of_two_mounts_at_one_place_the_later_one_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An automount stays where it was asked for, under what it mounts there."""
    mounted(monkeypatch, (Path("/"), "ext4"), (tmp_path, "autofs"), (tmp_path, "nfs4"))

    assert database.filesystem_of(tmp_path / "deeper") == "nfs4"


@pytest.mark.parametrize("name", ["données", "a\u2028b\xa0c", "\udce9t\udce9", "with\nall\t# \\040"])
def test_a_mount_is_found_whatever_its_name_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    mounted(monkeypatch, (Path("/"), "ext4"), (tmp_path / name, "nfs4"))

    assert database.filesystem_of(tmp_path / name) == "nfs4"
    assert database.filesystem_of(tmp_path) == "ext4"


def mounted(monkeypatch: pytest.MonkeyPatch, *mounts: tuple[Path, str]) -> None:
    """Let the system say that these are mounted, in its spelling."""

    def escaped(point: Path) -> bytes:
        return re.sub(rb"[ \t\n\\#]", lambda found: b"\\%03o" % found[0][0], os.fsencode(point))

    lines = b"".join(b"source %s %s rw 0 0\n" % (escaped(point), kind.encode()) for point, kind in mounts)
    real = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda file: lines if str(file) == "/proc/self/mounts" else real(file))


@pytest.mark.slow
async def test_six_processes_that_open_a_new_file_at_once_agree_on_one_ledger(url: str, ledger: Ledger) -> None:
    """All of them want to create it."""
    parties = [a_party(url, f"p{n}", 2) for n in range(6)]
    processes = [party.__enter__() for party in parties]
    try:
        codes = [await asyncio.to_thread(process.wait, 60) for process in processes]
    finally:
        for party in parties:
            party.__exit__(None, None, None)

    assert codes == [0] * 6
    assert (await ledger.counts(None))["queued"] == 12


# --- backup ---


async def test_a_backup_opens_as_a_ledger_with_all_that_was_in_it(ledger: Ledger, tmp_path: Path) -> None:
    [reply] = await ledger.submit([a_request("r1", key="k")])

    await ledger.backup(str(tmp_path / "copy.db"))
    await ledger.submit([a_request("r2")])

    copy = open_ledger(f"sqlite:///{tmp_path}/copy.db")
    assert (await copy.job(None, reply.job_id)) == (await ledger.job(None, reply.job_id))
    assert (await copy.counts(None))["queued"] == 1
    assert await copy.violations() == []
    await copy.close()


async def test_a_backup_never_overwrites(ledger: Ledger, tmp_path: Path) -> None:
    fill(tmp_path / "copy.db", "precious")

    with pytest.raises(Invalid, match="never overwrites"):
        await ledger.backup(str(tmp_path / "copy.db"))
    assert is_there(tmp_path / "copy.db", text="precious")


@pytest.mark.slow
@pytest.mark.needs_root
async def test_a_backup_to_a_full_disk_says_so_and_leaves_nothing(ledger: Ledger, tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", megabytes=1) as disk:
        disk.fill(leave_bytes=8192)
        with pytest.raises(LedgerUnavailable, match=r"its disk is full; free some space.*the ledger goes on"):
            await ledger.backup(str(disk.folder / "copy.db"))
        assert list(disk.folder.iterdir()) == [disk.ballast]


async def test_a_backup_while_others_write_is_whole(ledger: Ledger, tmp_path: Path) -> None:
    async def write() -> None:
        for n in range(200):
            await ledger.submit([a_request(f"r{n}")])

    writing = asyncio.ensure_future(write())
    await ledger.submit([a_request("first")])
    await ledger.backup(str(tmp_path / "copy.db"))
    await writing

    copy = apsw.Connection(str(tmp_path / "copy.db"))
    counted = copy.execute("SELECT (SELECT count(*) FROM job), (SELECT sum(jobs) FROM counted)").fetchall()[0]
    jobs, requests = (int(str(n)) for n in counted)
    assert copy.pragma("integrity_check") == "ok"
    assert 1 <= jobs == requests <= 201


async def test_a_backup_sees_one_moment_however_much_others_write_meanwhile(
    ledger: Ledger, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit between two steps would make a copy without a snapshot begin again, under load for ever."""
    await ledger.submit([a_request(f"r{n}") for n in range(100)])
    other = database.connect(path)
    writes = iter(range(1_000_000))

    class Busy:
        """A target whose source is written to before each step."""

        def __init__(self, path: str) -> None:
            self._real = connection(path)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

        def backup(self, *names: Any) -> Any:
            copying = self._real.backup(*names)

            class Copying:
                done = property(lambda _: copying.done)

                def __enter__(self) -> Copying:
                    return self

                def __exit__(self, *error: object) -> None:
                    copying.finish()

                def step(self, pages: int) -> None:
                    other.execute("INSERT INTO meta(k, v) VALUES (?, 1)", (f"k{next(writes)}",))
                    copying.step(1)

            return Copying()

    connection = apsw.Connection
    monkeypatch.setattr(apsw, "Connection", Busy)
    await asyncio.wait_for(ledger.backup(str(tmp_path / "copy.db")), 30)
    monkeypatch.undo()

    copy = apsw.Connection(str(tmp_path / "copy.db"))
    assert copy.execute("SELECT count(*) FROM meta WHERE k LIKE 'k%' AND k != 'knocked_at_ms'").get == 0
    assert copy.execute("SELECT count(*) FROM job").get == 100
    other.close()


async def test_a_backup_of_a_damaged_ledger_is_refused_and_leaves_nothing(
    ledger: Ledger, path: Path, tmp_path: Path
) -> None:
    await ledger.submit([a_request("r1")])
    with apsw.Connection(str(path)) as connection:
        connection.pragma("ignore_check_constraints", True)
        connection.execute("UPDATE job SET max_losses = 0")

    with pytest.raises(LedgerUnavailable, match="damaged"):
        await ledger.backup(str(tmp_path / "copy.db"))
    assert not is_there(tmp_path / "copy.db")


async def test_a_backup_where_no_file_can_be_made_says_so(ledger: Ledger, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="cannot be written"):
        await ledger.backup(str(tmp_path / "missing" / "copy.db"))


def fill(path: Path, text: str) -> None:
    path.write_text(text)


def is_there(path: Path, *, text: str | None = None) -> bool:
    return path.exists() and (text is None or path.read_text() == text)
