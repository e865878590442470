"""Jobs are counted 128 at a time: whatever comes, ends and goes between two counts, the sums are those of all jobs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from planrun.clock import Instant
from planrun.ledger.sqlite.database import connect
from planrun.ledger.sqlite.migrating import migrate
from planrun.ledger.sqlite.writer import SqliteTx
from planrun.ledger.verbs import reading

INSERT = """
INSERT INTO job(job_id, namespace, kind, version, content_hash, state, ended_at_ms, created_at_ms)
VALUES (:job_id, :namespace, :kind, 'v1', 'c', :state, iif(:state = 'queued', NULL, 1), :at_ms)
"""
START = """
UPDATE job SET state = 'running', token = id, incarnation = 'w', lease_until_ms = 1
 WHERE state = 'queued' AND id % 7 = :n % 7
"""
STOP = """
UPDATE job SET state = 'queued', token = NULL, incarnation = NULL, lease_until_ms = NULL
 WHERE state = 'running' AND id % 5 = :n % 5
"""
END = """
UPDATE job SET state = :state, token = NULL, incarnation = NULL, lease_until_ms = NULL, ended_at_ms = 1
 WHERE ended_at_ms IS NULL AND id % 3 = :n % 3
"""
DROP_OLDEST = "DELETE FROM job WHERE ended_at_ms IS NOT NULL AND id < (SELECT max(id) FROM job) - :n"
DROP_NEWEST = "DELETE FROM job WHERE id > (SELECT max(id) FROM job) - :n"


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[apsw.Connection]:
    path = tmp_path / "ledger.db"
    connection = connect(path)
    migrate(connection, path)
    connection.pragma("synchronous", "off")
    yield connection
    connection.close()


@pytest.mark.parametrize("seed", range(3))
def test_the_sums_are_those_of_a_look_at_each_job_whatever_happened(connection: apsw.Connection, seed: int) -> None:
    luck = random.Random(seed)
    at_ms = 1_000
    with connection:
        for n in range(400):
            what = luck.choice([INSERT] * 4 + [START, STOP, END, DROP_OLDEST, DROP_NEWEST])
            for i in range(luck.choice((1, 40, 150)) if what == INSERT else 1):
                at_ms += luck.choice((0, 1, 1, 2, -40, 50))
                values = {
                    "job_id": f"{n}-{i}",
                    "namespace": luck.choice(("ads", "default")),
                    "kind": luck.choice(("poster", "preview")),
                    "state": "finished" if what == END else luck.choice(("queued",) * 9 + ("canceled",)),
                    "at_ms": at_ms,
                    "n": luck.randrange(300),
                }
                connection.execute(what, values)
            assert_true_counts(connection)
            assert_none_is_older_than(connection, at_ms - luck.randrange(2_000))


def test_a_job_that_is_handed_in_is_counted_later_and_then_once(connection: apsw.Connection) -> None:
    values = {"namespace": "default", "kind": "preview", "state": "queued", "at_ms": 1}
    for n in range(127):
        connection.execute(INSERT, {**values, "job_id": str(n)})
    assert connection.execute("SELECT count(*) FROM tally").get == 0
    assert_true_counts(connection)

    connection.execute(INSERT, {**values, "job_id": "last"})

    assert connection.execute("SELECT state, jobs FROM tally").get == ("open", 128)
    assert_true_counts(connection)


def test_what_is_known_of_jobs_that_are_all_gone_goes_too(connection: apsw.Connection) -> None:
    values = {"namespace": "default", "kind": "preview", "at_ms": 1}
    for n in range(1_000):
        connection.execute(INSERT, {**values, "job_id": str(n), "state": "queued" if n > 700 else "canceled"})
    assert connection.execute("SELECT count(*) FROM span").get == 7

    connection.execute("DELETE FROM job WHERE state = 'canceled'")
    for n in range(128):
        connection.execute(INSERT, {**values, "job_id": f"more {n}", "state": "queued"})

    assert connection.execute("SELECT min(first_id), count(*) FROM span").get == (641, 3)


def assert_true_counts(connection: apsw.Connection) -> None:
    names = "namespace, kind, version, state"
    counted = connection.execute(f"SELECT {names}, jobs FROM counted ORDER BY {names}").fetchall()
    there = connection.execute(f"SELECT {names}, count(*) FROM job GROUP BY {names} ORDER BY {names}").fetchall()

    assert counted == there
    assert [text for text in reading.violations(tx_of(connection)) if "tally" in text] == []


def assert_none_is_older_than(connection: apsw.Connection, since_ms: int) -> None:
    [found] = tx_of(connection).rows("first_since", since_ms=since_ms)
    oldest: Any = connection.execute("SELECT min(id) FROM job WHERE created_at_ms >= ?", (since_ms,)).get
    newest: Any = connection.execute("SELECT coalesce(max(id), 0) FROM job").get

    assert oldest is None or found["id"] <= oldest
    assert found["id"] <= newest + 1


def tx_of(connection: apsw.Connection) -> SqliteTx:
    return SqliteTx(connection, Instant(1, 1, "e"))
