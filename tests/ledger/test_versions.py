"""Two versions of planrun on one ledger: each does its work, or says clearly why not. Nothing is lost or damaged."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from planrun.cli.app import run
from planrun.cli.exits import Exit
from planrun.core.errors import LedgerUnavailable, LedgerUnusable
from planrun.core.life import Outcome, State
from planrun.core.messages import Beat, Granted, GrantRequest, RenewRequest, SettleRequest
from planrun.ledger.contract import Ledger
from planrun.ledger.sqlite import migrating
from planrun.ledger.sqlite.database import connect
from planrun.ledger.sqlite.migrating import Migration, migrate, schema_known
from planrun.wiring import open_ledger

from .plain import a_request, a_worker

pytestmark = pytest.mark.anyio

KNOWN = migrating.migrations()
ADDS = Migration(schema_known() + 1, "more", "-- More.\nALTER TABLE worker ADD COLUMN more TEXT;\n")
BREAKS = Migration(schema_known() + 1, "other", "-- Other.\n-- Breaking: leases are kept elsewhere.\nSELECT 1;\n")


@contextlib.contextmanager
def planrun_that_knows(*known: Migration) -> Iterator[None]:
    """An older or newer planrun, as far as opening and upgrading goes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrating, "migrations", lambda: known)
        yield


def a_ledger_of(path: Path, *known: Migration) -> None:
    with planrun_that_knows(*known), contextlib.closing(connect(path)) as connection:
        migrate(connection, path)


def upgraded(path: Path, newest: Migration) -> None:
    """A newer planrun opens the ledger."""
    a_ledger_of(path, *KNOWN, newest)


def schema_of(path: Path) -> list[Any]:
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        rows = connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY type, name").fetchall()
        return [connection.pragma("user_version"), *rows]


@pytest.mark.parametrize("at", range(1, schema_known()))
async def test_a_ledger_of_any_older_schema_is_brought_up_to_date_with_all_that_was_in_it(
    url: str, path: Path, tmp_path: Path, at: int, caplog: pytest.LogCaptureFixture
) -> None:
    a_ledger_of(path, *KNOWN[:at])
    with contextlib.closing(connect(path)) as connection:
        connection.execute(
            "INSERT INTO job(job_id, namespace, kind, version, content_hash, created_at_ms)"
            " VALUES ('j', 'd', 'k', 'v1', 'c', 1)"
        )

    ledger = open_ledger(url)
    row, counts, broken = await ledger.job(None, "j"), await ledger.counts("d"), await ledger.violations()
    await ledger.close()
    await open_ledger(f"sqlite:///{tmp_path}/fresh.db").close()

    assert row is not None
    assert (counts["queued"], broken) == (1, [])
    assert schema_of(path) == schema_of(tmp_path / "fresh.db")
    assert f"upgrading {path} to schema {at + 1}" in caplog.text
    assert "fresh" not in caplog.text  # there is nothing to upgrade in a new one


async def test_a_schema_of_a_newer_planrun_is_refused_with_both_versions_and_left_alone(url: str, path: Path) -> None:
    await open_ledger(url).close()
    upgraded(path, ADDS)

    with pytest.raises(
        LedgerUnusable, match=rf"newer planrun \(schema {ADDS.number}, this one knows {schema_known()}\); upgrade"
    ):
        open_ledger(url)
    assert schema_of(path)[0] == ADDS.number


async def test_an_old_process_goes_on_after_a_migration_that_adds(ledger: Ledger, path: Path) -> None:
    running = await a_running_job(ledger, "r1")

    upgraded(path, ADDS)

    await it_ends(ledger, running)
    await it_ends(ledger, await a_running_job(ledger, "r2"))
    assert [worker.name for worker in await ledger.workers()] == ["w1"]
    assert await ledger.violations() == []


async def test_an_old_process_starts_and_takes_in_nothing_after_a_migration_that_breaks_and_what_it_runs_ends(
    ledger: Ledger, path: Path
) -> None:
    running = await a_running_job(ledger, "r1")
    [waiting] = await ledger.submit([a_request("r2")])

    upgraded(path, BREAKS)

    says = rf"upgraded to schema {BREAKS.number}.* knows {schema_known()} only: restart it.*nothing was done"
    with pytest.raises(LedgerUnusable, match=says):
        await ledger.submit([a_request("r3")])
    with pytest.raises(LedgerUnusable, match=says):
        await ledger.grant(a_grant(waiting.job_id))
    assert await ledger.job(None, "r3") is None
    row = await ledger.job(None, "r2")
    assert row is not None
    assert row.state is State.QUEUED
    await it_ends(ledger, running)


async def test_a_new_process_is_not_refused_by_what_it_knows(url: str, path: Path) -> None:
    await open_ledger(url).close()
    upgraded(path, BREAKS)
    with planrun_that_knows(*KNOWN, BREAKS):
        ledger = open_ledger(url)
        await it_ends(ledger, await a_running_job(ledger, "r1"))
        await ledger.close()


async def test_an_upgrade_that_fails_half_way_changes_nothing(url: str, path: Path) -> None:
    await open_ledger(url).close()
    before = schema_of(path)
    broken = Migration(ADDS.number, "broken", "-- Broken.\nCREATE TABLE half(x);\nCREATE TABLE job(x);\n")

    with planrun_that_knows(*KNOWN, broken), pytest.raises(LedgerUnavailable, match="already exists"):
        open_ledger(url)

    assert schema_of(path) == before
    await open_ledger(url).close()


# --- planrun migrate ---


@pytest.fixture
def planrun(url: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def call(*tokens: str) -> tuple[int, str, str]:
        status = run([*tokens, "--url", url])
        out, err = capsys.readouterr()
        return status, out, err

    return call


def test_migrate_says_what_would_change_and_then_changes_it_after_a_copy(
    planrun: Callable[..., tuple[int, str, str]], path: Path
) -> None:
    a_ledger_of(path, *KNOWN[:1])
    before = schema_of(path)

    status, out, _ = planrun("migrate", "--dry-run")
    assert (status, "2 pause: Sets of jobs" in out, "nothing was changed" in out) == (Exit.FINISHED, True, True)
    assert schema_of(path) == before

    status, out, _ = planrun("migrate")
    copy = path.with_name("ledger.db.schema-1")
    assert (status, f"from schema 1 to {schema_known()}" in out, str(copy) in out) == (Exit.FINISHED, True, True)
    assert (schema_of(path)[0], schema_of(copy)) == (schema_known(), before)
    assert "up to date" in planrun("migrate")[1]
    assert planrun("migrate", "--json")[0] == Exit.FINISHED


def test_migrate_without_a_copy_where_there_is_one_changes_nothing(
    planrun: Callable[..., tuple[int, str, str]], path: Path
) -> None:
    a_ledger_of(path, *KNOWN[:1])
    path.with_name("ledger.db.schema-1").touch()

    status, _, why = planrun("migrate")
    assert (status, "never overwrites" in why, schema_of(path)[0]) == (Exit.USAGE, True, 1)
    assert planrun("migrate", "--no-backup", "--backup", "x")[0] == Exit.USAGE
    assert planrun("migrate", "--no-backup")[0] == Exit.FINISHED
    assert schema_of(path)[0] == schema_known()


def test_migrate_makes_no_ledger_and_leaves_a_newer_one(
    planrun: Callable[..., tuple[int, str, str]], path: Path
) -> None:
    status, _, why = planrun("migrate")
    assert (status, "no ledger" in why, path.exists()) == (Exit.UNREACHABLE, True, False)
    upgraded(path, ADDS)

    status, _, why = planrun("migrate")
    assert (status, "upgrade planrun here" in why) == (Exit.UNREACHABLE, True)


def a_grant(job_id: str) -> GrantRequest:
    return GrantRequest(job_id=job_id, attempt=1, incarnation="w1", nonce=job_id, lease_ms=60_000)


async def a_running_job(ledger: Ledger, request_id: str) -> Granted:
    await ledger.register(a_worker("w1"))
    [reply] = await ledger.submit([a_request(request_id)])
    granted = await ledger.grant(a_grant(reply.job_id))
    assert isinstance(granted, Granted)
    return granted


async def it_ends(ledger: Ledger, granted: Granted) -> None:
    beat = RenewRequest(incarnation="w1", beats=(Beat(lease=granted.lease),), lease_ms=60_000)
    assert [standing.status for standing in await ledger.renew(beat)] == ["held"]
    settled = await ledger.settle(SettleRequest(lease=granted.lease, outcome=Outcome.SUCCESS))
    assert (settled.status, settled.state) == ("won", State.FINISHED)
