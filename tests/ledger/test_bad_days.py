"""What a box does to a ledger: rights that are missing, files that vanish, other programs that do as they please."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from planrun.core.errors import LedgerUnavailable, LedgerUnusable
from planrun.ledger.contract import Ledger
from planrun.wiring import open_ledger

from .plain import a_request

pytestmark = pytest.mark.anyio

NOBODY = 65_534


async def python(*arguments: str) -> tuple[int, str, str]:
    """A program to its end: its status, and what it said."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=pipe, stderr=pipe)
    out, errors = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode or 0, out.decode(), errors.decode()


# --- rights ---


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody can reach, as pytest's own are not."""
    folder = Path(tempfile.mkdtemp(prefix="planrun-rights-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.needs_root
@pytest.mark.parametrize("command", ["list", "submit"])
@pytest.mark.parametrize(
    ("changed", "mode", "words"),
    [
        ("box/ledger.db", 0o444, "is read-only for you"),
        ("box/ledger.db", 0o000, "cannot be opened"),
        ("box", 0o555, "is read-only for you"),
        ("box", 0o666, "Permission denied"),
        ("box/ledger.db.turn", 0o444, "must be able to write the ledger and its folder"),
        ("box/ledger.db.wake", 0o444, "must be able to write the ledger and its folder"),
    ],
)
async def test_who_lacks_a_right_is_told_which_and_nothing_changes(
    folder: Path, command: str, changed: str, mode: int, words: str
) -> None:
    (folder / "box").mkdir()
    url = f"sqlite:///{folder}/box/ledger.db"
    ledger = open_ledger(url)
    await ledger.submit([a_request("r1")])
    await ledger.close()
    for file in (folder / "box", *(folder / "box").iterdir()):
        os.chown(file, NOBODY, NOBODY)
    (folder / changed).chmod(mode)
    tokens = [command, *(["preview"] if command == "submit" else []), "--url", url]

    status, _, said = await python(str(Path(__file__).with_name("as_nobody.py")), str(folder), *tokens)

    assert (status, words in said, len(said.splitlines())) == (5, True, 1), said
    ledger = open_ledger(url)
    assert (await ledger.counts(None))["queued"] == 1
    await ledger.close()


@pytest.mark.slow
@pytest.mark.needs_root
@pytest.mark.parametrize("folder_name", ["", "ledger.db.store", "ledger.db.logs", "ledger.db.scratch"])
async def test_check_names_a_folder_that_a_worker_could_not_write(folder: Path, folder_name: str) -> None:
    """With or without a ledger: what is well must be well for the first submit, too."""
    box = folder / "box"
    box.mkdir()
    os.chown(box, NOBODY, NOBODY)
    locked = box / folder_name
    locked.mkdir(exist_ok=True)
    locked.chmod(0o555)
    tokens = ("check", "--url", f"sqlite:///{box}/ledger.db")

    status, said, _ = await python(str(Path(__file__).with_name("as_nobody.py")), str(folder), *tokens)

    assert (status, f"wrong: {locked} cannot be written by you" in said) == (1, True), said


# --- files that vanish ---


@pytest.mark.parametrize("how", ["removed", "replaced"])
async def test_a_ledger_that_is_gone_under_an_open_process_takes_nothing_in(
    ledger: Ledger, url: str, path: Path, how: str
) -> None:
    """What was written into the file that has no name any more would be acknowledged, and lost."""
    await ledger.submit([a_request("r1")])
    for file in path.parent.glob("ledger.db*"):
        file.rename(file.with_name(f"old-{file.name}"))
    if how == "replaced":
        other = open_ledger(url)
        await other.submit([a_request("other")])
        await other.close()

    with pytest.raises(LedgerUnusable, match=r"removed or replaced.*nothing was done"):
        await ledger.submit([a_request("r2")])
    for look in (ledger.counts(None), ledger.violations()):
        with pytest.raises(LedgerUnusable, match="removed or replaced"):
            await look
    assert path.exists() == (how == "replaced")


async def test_a_loss_that_is_seen_only_after_a_commit_leaves_the_call_unanswered(
    ledger: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look before and the commit there is a moment; who asked must not be told "done"."""
    identity = vars(ledger)["_file"]
    looks = iter(("", f"{path}-wal was removed"))
    monkeypatch.setattr(identity, "find_loss", lambda: next(looks, ""))

    with pytest.raises(LedgerUnavailable, match=r"was removed; whether the call was done is not known"):
        await ledger.submit([a_request("r1")])


SECOND_LIBRARY = """
import sqlite3, sys
from planrun import Client, LedgerUnusable
path = sys.argv[1]
with Client(f"sqlite:///{path}") as planrun:
    planrun.submit("preview", request_id="r1")
    other = sqlite3.connect(path)
    assert other.execute("SELECT count(*) FROM job").fetchone() == (1,)
    other.close()  # takes planrun's locks on the file away, believes itself alone, and removes the log
    try:
        planrun.submit("preview", request_id="r2")
    except LedgerUnusable as error:
        print(error)
"""


@pytest.mark.slow
async def test_a_second_sqlite_library_inside_the_process_is_found_out_before_it_loses_anything(
    url: str, path: Path
) -> None:
    _, said, errors = await python("-c", SECOND_LIBRARY, str(path))

    assert "another SQLite library inside this process" in said, errors
    ledger = open_ledger(url)
    assert await ledger.job(None, "r1") is not None
    assert await ledger.job(None, "r2") is None
    await ledger.submit([a_request("r3")])
    assert await ledger.violations() == []
    await ledger.close()


# --- other programs ---

MEDDLER = """
import sqlite3, sys, time
other = sqlite3.connect(sys.argv[1], timeout=20, isolation_level=None)
for _ in range(4):
    other.execute("SELECT count(*) FROM job").fetchall()
    other.execute("BEGIN EXCLUSIVE")
    other.execute("INSERT OR REPLACE INTO meta(k, v) VALUES ('theirs', 1)")
    time.sleep(0.4)
    other.execute("COMMIT")
    time.sleep(0.05)
    for statement in ("PRAGMA journal_mode = DELETE", "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"):
        try:
            other.execute(statement).fetchall()
        except sqlite3.OperationalError as error:
            assert "locked" in str(error), error
other.close()
"""


@pytest.mark.slow
async def test_another_program_that_locks_vacuums_and_changes_the_journal_delays_and_loses_nothing(
    ledger: Ledger, path: Path
) -> None:
    """C30: with the SQLite that Python brings along."""
    meddling = asyncio.ensure_future(python("-c", MEDDLER, str(path)))
    submitted = 0
    while not meddling.done():
        await ledger.submit([a_request(f"r{submitted}")])
        submitted += 1
    status, _, errors = await meddling

    assert status == 0, errors
    assert (await ledger.counts(None))["queued"] == submitted
    assert await ledger.violations() == []
    connection = apsw.Connection(str(path))
    assert (connection.pragma("journal_mode"), connection.pragma("integrity_check")) == ("wal", "ok")
    connection.close()


async def test_a_journal_mode_that_was_changed_while_nobody_was_there_is_set_right(url: str, path: Path) -> None:
    await open_ledger(url).close()
    connection = apsw.Connection(str(path))
    assert connection.pragma("journal_mode", "delete") == "delete"
    connection.close()

    await open_ledger(url).close()

    connection = apsw.Connection(str(path))
    assert connection.pragma("journal_mode") == "wal"
    connection.close()


async def test_who_opens_a_ledger_that_another_program_holds_alone_is_told_so(url: str, path: Path) -> None:
    await open_ledger(url).close()
    foreign = apsw.Connection(str(path))
    foreign.pragma("journal_mode", "delete")
    foreign.execute("BEGIN EXCLUSIVE")

    with pytest.raises(LedgerUnavailable, match=r"locked by a program that is not planrun: close it"):
        open_ledger(url)

    foreign.execute("ROLLBACK")
    foreign.close()
    await open_ledger(url).close()
