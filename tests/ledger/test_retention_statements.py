"""The fences of what goes: each condition by itself keeps the row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from planrun.clock import Instant
from planrun.ledger.contract import Ledger
from planrun.ledger.sqlite.writer import SqliteTx

pytestmark = pytest.mark.anyio

JOB = "00000000-0000-0000-0000-000000000001"
BEFORE, AFTER = (f"00000000-0000-0000-0000-00000000000{n}" for n in (0, 2))
MSG = f"result:{JOB}:webhook:x"
JOBS = {"job_ids": f'["{JOB}"]'}
ROWS = f"""
INSERT INTO worker VALUES ('w1', 'w', 'box', '[]', 1, '[]', '[]', '', 0, 0, 0, 'gone', 5);
INSERT INTO job(job_id, namespace, kind, version, content_hash, state, attempt, created_at_ms, ended_at_ms,
                result_gone_at_ms)
VALUES ('{JOB}', 'default', 'preview', 'v1', 'c', 'finished', 2, 1, 2, 3);
INSERT INTO request VALUES ('default', 'r1', 'h', '{JOB}', 1);
INSERT INTO subscriber(job_id, route) VALUES ('{JOB}', 'webhook:x');
INSERT INTO attempt(job_id, attempt, token, nonce, incarnation, granted_at_ms, ended_at_ms, outcome, stopped, collected)
VALUES ('{JOB}', 1, 11, 'n', 'w1', 1, 2, 'lost', 1, 1), ('{JOB}', 2, 12, 'n', 'w1', 1, 2, 'success', 1, 1);
INSERT INTO result(job_id, attempt, token, status, outputs) VALUES ('{JOB}', 2, 12, 'finished', '[1]');
INSERT INTO event(id, job_id, at_ms, what) VALUES (7, '{JOB}', 1, 'submitted');
"""


@pytest.fixture
def tx(path: Path, ledger: Ledger) -> Iterator[SqliteTx]:
    """A job that may go to the archive, and its worker."""
    connection = apsw.Connection(str(path))
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(ROWS)
    yield SqliteTx(connection, Instant(0, 0, "boot"))
    connection.execute("ROLLBACK")
    connection.close()


def run(tx: SqliteTx, text: str) -> list[Any]:
    return tx._connection.execute(text).fetchall()


def owe(tx: SqliteTx, *, confirmed: int) -> None:
    run(tx, f"INSERT INTO outbox(msg_id, route, body, confirmed) VALUES ('{MSG}', 'webhook:x', '', {confirmed})")


def archive(tx: SqliteTx) -> list[Any]:
    return tx.rows("archive_jobs", seen=f'{{"{JOB}": 7}}', wall_ms=9)


async def test_a_job_that_left_nothing_behind_is_archived(tx: SqliteTx) -> None:
    assert archive(tx) == [{"job_id": JOB}]


@pytest.mark.parametrize(
    "kept_by",
    [
        "UPDATE job SET result_gone_at_ms = NULL",
        "UPDATE attempt SET collected = 0 WHERE attempt = 1",
        f"INSERT INTO outbox(msg_id, route, body, confirmed) VALUES ('{MSG}', 'webhook:x', '', 1)",
        f"INSERT INTO event(id, job_id, at_ms, what) VALUES (8, '{JOB}', 1, 'retried')",
    ],
)
async def test_its_result_its_files_a_message_or_news_keep_a_job(tx: SqliteTx, kept_by: str) -> None:
    run(tx, kept_by)

    assert archive(tx) == []


TABLES = {
    "drop_jobs": "job",
    "drop_attempts": "attempt",
    "drop_events": "event",
    "drop_result_rows": "result",
    "drop_subscribers": "subscriber",
}


@pytest.mark.parametrize(("name", "table"), TABLES.items())
async def test_rows_of_a_job_go_only_once_it_is_archived(tx: SqliteTx, name: str, table: str) -> None:
    tx.rows(name, **JOBS)
    assert run(tx, f"SELECT count(*) > 0 FROM {table}") == [(1,)]
    archive(tx)
    tx.rows(name, **JOBS)

    assert run(tx, f"SELECT count(*) FROM {table}") == [(0,)]


async def test_an_open_job_has_no_result_that_could_go(tx: SqliteTx) -> None:
    run(tx, "DELETE FROM job")
    run(
        tx,
        "INSERT INTO job(job_id, namespace, kind, version, content_hash, created_at_ms)"
        f" VALUES ('{JOB}', 'default', 'preview', 'v1', 'c', 1)",
    )

    assert tx.rows("drop_results", **JOBS, wall_ms=9) == []


@pytest.mark.parametrize("confirmed", [0, 1])
async def test_a_message_that_is_owed_keeps_the_result(tx: SqliteTx, confirmed: int) -> None:
    run(tx, "UPDATE job SET result_gone_at_ms = NULL")
    owe(tx, confirmed=confirmed)

    assert len(tx.rows("drop_results", **JOBS, wall_ms=9)) == confirmed


@pytest.mark.parametrize("is_closing", [0, 1])
async def test_a_result_that_is_gone_or_not_said_does_not_go(tx: SqliteTx, is_closing: int) -> None:
    if is_closing:
        run(tx, "DROP TRIGGER closing_ends")
        run(tx, "UPDATE job SET result_gone_at_ms = NULL, closing = 1")

    assert tx.rows("drop_results", **JOBS, wall_ms=9) == []


async def test_what_another_job_left_keeps_nothing_of_this_one(tx: SqliteTx) -> None:
    """Two others, of which one is called by less and one by more."""
    run(tx, "UPDATE job SET result_gone_at_ms = NULL")
    for other, n in ((BEFORE, 20), (AFTER, 21)):
        run(
            tx,
            "INSERT INTO attempt(job_id, attempt, token, nonce, incarnation, granted_at_ms)"
            f" VALUES ('{other}', 1, {n}, 'n', 'w2', 1);"
            f" INSERT INTO event(id, job_id, at_ms, what) VALUES ({n}, '{other}', 1, 'submitted');"
            f" INSERT INTO outbox(msg_id, route, body) VALUES ('result:{other}:webhook:x', 'webhook:x', '')",
        )

    assert [len(tx.rows("drop_results", **JOBS, wall_ms=9)), len(archive(tx))] == [1, 1]
    assert len(tx.rows("drop_workers", incarnations='["w1"]', before_ms=5)) == 1


@pytest.mark.parametrize("is_gone", [False, True])
async def test_only_the_winners_files_become_garbage_and_only_once_the_result_is_gone(
    tx: SqliteTx, is_gone: bool
) -> None:
    if not is_gone:
        run(tx, "UPDATE job SET result_gone_at_ms = NULL")
    tx.rows("uncollect", **JOBS)

    assert run(tx, "SELECT attempt FROM attempt WHERE collected = 0") == ([(2,)] if is_gone else [])


async def test_a_token_that_another_history_gave_to_another_job_makes_no_garbage_here(tx: SqliteTx) -> None:
    """Its answer was adopted, and names the token that an attempt of this job has here."""
    run(
        tx,
        "INSERT INTO job(job_id, namespace, kind, version, content_hash, state, created_at_ms, ended_at_ms,"
        f" result_gone_at_ms) VALUES ('{AFTER}', 'default', 'preview', 'v1', 'c', 'finished', 1, 2, 3);"
        f" INSERT INTO result(job_id, attempt, token, status, outputs) VALUES ('{AFTER}', 1, 11, 'finished', '[1]')",
    )
    tx.rows("uncollect", job_ids=f'["{JOB}", "{AFTER}"]')

    assert run(tx, "SELECT token FROM attempt WHERE collected = 0") == [(12,)]


@pytest.mark.parametrize("is_fleet", [False, True])
async def test_in_a_fleet_the_log_of_a_job_without_files_goes_with_its_result(tx: SqliteTx, is_fleet: bool) -> None:
    run(tx, "DROP TRIGGER result_frozen")
    run(tx, "UPDATE result SET outputs = '[]'")
    if is_fleet:
        run(tx, "INSERT INTO meta(k, v) VALUES ('beat_epoch', 1)")
    tx.rows("uncollect", **JOBS)

    assert run(tx, "SELECT attempt FROM attempt WHERE collected = 0") == ([(2,)] if is_fleet else [])


@pytest.mark.parametrize("confirmed", [0, 1])
async def test_only_a_confirmed_message_goes_and_counts_as_told(tx: SqliteTx, confirmed: int) -> None:
    owe(tx, confirmed=confirmed)
    tx.rows("tell_subscribers", msg_ids=f'["{MSG}"]')

    assert run(tx, "SELECT told FROM subscriber") == [(confirmed,)]
    assert len(tx.rows("drop_messages", msg_ids=f'["{MSG}"]')) == confirmed


@pytest.mark.parametrize("archived", [False, True])
async def test_the_request_of_a_job_is_kept_apart_only_once_the_job_is_archived(tx: SqliteTx, archived: bool) -> None:
    run(tx, "DELETE FROM request")
    run(tx, "UPDATE job SET request_id = 'r1', request_hash = 'h'")
    if archived:
        archive(tx)
    tx.rows("keep_requests", **JOBS)

    assert run(tx, "SELECT request_id, job_id FROM request") == ([("r1", JOB)] if archived else [])


async def test_of_a_job_that_was_made_before_jobs_had_their_request_nothing_is_kept_apart(tx: SqliteTx) -> None:
    archive(tx)
    tx.rows("keep_requests", **JOBS)

    assert run(tx, "SELECT request_id FROM request") == [("r1",)]


async def test_an_id_and_its_requests_go_never_before_their_job(tx: SqliteTx) -> None:
    archive(tx)
    tx.rows("drop_requests", **JOBS)
    assert (run(tx, "SELECT count(*) FROM request"), tx.rows("drop_ids", **JOBS)) == ([(1,)], [])
    tx.rows("drop_jobs", **JOBS)
    tx.rows("drop_requests", **JOBS)

    assert (run(tx, "SELECT count(*) FROM request"), tx.rows("drop_ids", **JOBS)) == ([(0,)], [{"job_id": JOB}])


@pytest.mark.parametrize(
    ("but", "goes"),
    [("SELECT 1", True), ("UPDATE worker SET seen_at_ms = 6", False), ("UPDATE attempt SET stopped = 0", False)],
)
async def test_a_worker_that_was_seen_or_may_still_run_something_stays(tx: SqliteTx, but: str, goes: bool) -> None:
    run(tx, but)

    assert len(tx.rows("drop_workers", incarnations='["w1"]', before_ms=5)) == goes


async def test_a_public_name_stays_with_the_one_who_asked_last(tx: SqliteTx) -> None:
    name = {"namespace": "default", "name": "master.mp4"}
    assert len(tx.rows("take_public_name", **name, job_id="second", seq=2)) == 1
    assert tx.rows("take_public_name", **name, job_id="first", seq=1) == []
    assert len(tx.rows("take_public_name", **name, job_id="second", seq=2)) == 1

    assert tx.rows("public_name", **name) == [{"job_id": "second"}]


async def test_a_subscriber_of_an_open_job_cannot_be_called_told(tx: SqliteTx) -> None:
    run(tx, "DELETE FROM job")
    run(
        tx,
        "INSERT INTO job(job_id, namespace, kind, version, content_hash, created_at_ms)"
        f" VALUES ('{JOB}', 'default', 'preview', 'v1', 'c', 1)",
    )
    tx.rows("tell_subscriber", job_id=JOB, route="webhook:x")

    assert run(tx, "SELECT told FROM subscriber") == [(0,)]


async def test_one_subscriber_of_a_job_is_called_told(tx: SqliteTx) -> None:
    run(tx, f"INSERT INTO subscriber(job_id, route) VALUES ('{JOB}', 'webhook:y')")
    tx.rows("tell_subscriber", job_id=JOB, route="webhook:y")

    assert run(tx, "SELECT route FROM subscriber WHERE told") == [("webhook:y",)]


@pytest.mark.parametrize("published", [0, 1])
async def test_messages_wait_until_the_last_public_file_stands(tx: SqliteTx, published: int) -> None:
    run(
        tx,
        "INSERT INTO outbox(msg_id, route, body, not_before_ms, tries, confirmed) VALUES"
        f" ('{MSG}', '', '', 99, 0, 0), ('{MSG}2', '', '', 99, 1, 0),"
        f" ('result:{BEFORE}:command:x', '', '', 99, 0, 0), ('result:{AFTER}:command:x', '', '', 99, 0, 0),"
        f" ('result:{JOB}:publish:a', '', '', 0, 1, 1), ('result:{JOB}:publish:b', '', '', 99, 1, {published})",
    )
    tx.rows("release_messages", job_id=JOB)

    due = run(tx, "SELECT msg_id FROM outbox WHERE not_before_ms = 0 AND confirmed = 0")
    assert due == ([(MSG,)] if published else [])
