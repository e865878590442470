"""A million ended jobs must not slow the line: every hot statement searches an index that holds only what it needs."""

from __future__ import annotations

import re
from pathlib import Path

import apsw
import pytest

from planrun.ledger.sqlite.database import connect, statement
from planrun.ledger.sqlite.migrating import migrate

# statement → the index that it must search
HOT = {
    "offers": "job_ready",
    "ahead": "job_ready",
    "oldest": "job_oldest",
    "elders": "job_oldest",
    "promote": "job_delayed",
    "expired": "job_lease",
    "silent": "job_lease",
    "overdue": "job_deadline",
    "running_of": "job_holder",
    "held": "job_holder",
    "find_open_key": "job_key",
    "open_retry": "event_job",
    "take_messages": "outbox_due",
    "garbage": "attempt_garbage",
    "all_stopped": "attempt_alive",
    "live_tokens": "sqlite_autoindex_attempt_1",
    "events": "event_job",
    "workers": "worker_seen",
    "rebase_jobs": "job_delayed",
    "resume": "pause_open",
    "newest_queued": "job_later",
    "newest_of_set": "job_set",
    "newest_of_key": "job_named",
    "next_kept": "job_kept",
    "stale_results": "job_kept",
    "stale_jobs": "job_archivable",
    "stale_messages": "outbox_done",
    "stale_ids": "archived_age",
    "stale_workers": "worker_seen",
    "drop_events": "event_job",
    "drop_requests": "request_job",
    "public_names": "public_job",
    "end_drain": "drain_open",
    "job_ids": "sqlite_autoindex_job_1",
    "closing": "job_closing",
    "newest_closing": "job_closing",
}
# statements that find one row by its name
BY_NAME = [
    "grant", "renew", "stage", "checkpoint", "requeue", "end_running", "end_queued", "end_attempt", "stopped",
    "say_progress", "collected", "join_job", "job_state", "job_row", "find_request", "job_of_request", "find_attempt",
    "find_result", "attempts", "subscribers", "confirm", "next_n", "meta", "jobs", "newest",
    "astray", "workers_among", "rates", "find_archived", "uncollect", "drop_results", "drop_jobs",
    "drop_attempts", "drop_result_rows", "drop_subscribers",
    "tell_subscribers", "drop_messages", "drop_ids", "drop_workers",
    "public_name", "unpublished", "release_messages", "tell_subscriber", "find_keep", "worker", "drain", "undrain",
    "manifest", "close_job", "adopt_result", "adopt_end", "end_elsewhere", "unadopted", "take_generation", "drop_meta",
    "park", "give_key", "proof", "revoke_access_token", "see_access_token", "extend", "unsee_worker",
]  # fmt: skip
# statements that may read a whole index, but only one that leaves ended jobs out
NARROW = {
    "foreign_leases": "job_lease",
    "rearm": "job_lease",
    "holders": "attempt_alive",
    "rebase_messages": "outbox_due",
    "taken": "job_holder",
    "newest_running": "job_holder",
    "waiting_sets": "job_ready",
    "waiting_jobs": "job_ready",
    "open_pauses": "pause_open",
}

# statements that count: a row for each set of jobs, the few jobs that are not counted yet, and those that run
COUNTING = ["counts", "namespaces", "open_jobs", "sets"]


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> apsw.Connection:
    path = tmp_path_factory.mktemp("plans") / "ledger.db"
    connection = connect(path)
    migrate(connection, path)
    return connection


def plan_of(connection: apsw.Connection, name: str) -> list[str]:
    text = statement(name)
    values = dict.fromkeys(re.findall(r":(\w+)", text))
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", values)]


def scans(plan: list[str]) -> list[str]:
    """Steps that read a whole table, or sort."""
    harmless = ("SCAN json_each", "SCAN CONSTANT ROW", "SCAN (subquery", "SCAN older")
    return [step for step in plan if step.startswith(("SCAN", "USE TEMP")) and not step.startswith(harmless)]


@pytest.mark.parametrize(("name", "index"), HOT.items())
def test_a_hot_statement_searches_its_index_and_never_sorts(connection: apsw.Connection, name: str, index: str) -> None:
    plan = plan_of(connection, name)

    assert scans(plan) == []
    assert any(step.startswith("SEARCH") and f"INDEX {index}" in step for step in plan), plan


@pytest.mark.parametrize("name", BY_NAME)
def test_one_row_is_found_by_its_name(connection: apsw.Connection, name: str) -> None:
    plan = plan_of(connection, name)

    assert scans(plan) == []
    assert any(
        re.match(r"SEARCH \w+ USING (INTEGER )?(PRIMARY KEY|(COVERING )?INDEX sqlite_autoindex)", step) for step in plan
    ), plan


@pytest.mark.parametrize(("name", "index"), NARROW.items())
def test_a_sweep_reads_only_what_is_open(connection: apsw.Connection, name: str, index: str) -> None:
    steps = [step for step in plan_of(connection, name) if step.startswith(("SCAN", "SEARCH"))]

    assert any(f"INDEX {index}" in step for step in steps), steps
    assert all("INDEX" in step or "PRIMARY KEY" in step or "subquery" in step for step in steps), steps


@pytest.mark.parametrize("name", COUNTING)
def test_counting_reads_the_tally_and_no_job_that_is_in_it(connection: apsw.Connection, name: str) -> None:
    read = [step for step in plan_of(connection, name) if re.search(r"(SCAN|SEARCH) (tally|job|span)", step)]

    assert read == [
        "SCAN tally",
        "SEARCH job USING INTEGER PRIMARY KEY (rowid>?)",
        "SCAN job USING INDEX job_holder",
        "SCAN job USING INDEX job_holder",
    ]


def test_what_ended_lately_is_found_without_a_look_at_what_ended_before(connection: apsw.Connection) -> None:
    steps = "\n".join(plan_of(connection, "ended"))

    assert "SEARCH j USING INDEX job_kept (kind=? AND version=? AND ended_at_ms>?)" in steps, steps
    assert "SEARCH job USING INDEX job_archivable (ended_at_ms>?)" in steps, steps


def test_what_was_made_since_a_time_is_found_without_a_look_at_jobs(connection: apsw.Connection) -> None:
    assert not any("job" in step for step in plan_of(connection, "first_since"))


def test_a_look_at_what_is_due_touches_one_row_of_each_index(connection: apsw.Connection) -> None:
    plan = plan_of(connection, "due")

    assert scans(plan) == []
    for index in ("job_lease", "job_delayed", "outbox_due", "job_deadline"):
        assert any(step.startswith("SEARCH") and f"INDEX {index}" in step for step in plan), plan


@pytest.mark.parametrize("name", ["oldest", "elders"])
def test_the_line_by_age_is_that_of_priority_0_and_that_of_all_others(connection: apsw.Connection, name: str) -> None:
    plan = plan_of(connection, name)

    assert any("INDEX job_ready (kind=? AND version=? AND namespace=? AND priority=?" in step for step in plan), plan


def test_ended_jobs_are_in_no_index_of_the_line(connection: apsw.Connection) -> None:
    """Each of these is partial: its WHERE leaves ended jobs out."""
    rows = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL")
    partial = {name: sql.partition(" WHERE ")[2] for name, sql in rows}

    for index in ("job_ready", "job_oldest", "job_later", "job_delayed"):
        assert "state='queued'" in partial[index]
    for index in ("job_lease", "job_holder"):
        assert partial[index] == "state='running'"
    assert "ended_at_ms IS NULL" in partial["job_deadline"]


def test_no_statement_is_without_a_known_plan() -> None:
    """A new statement must be put into one of the lists above, or among those that a person waits for."""
    asked_by_people = {"violations", "owed", "pauses", "drains", "access_tokens"}
    folder = Path(str(__import__("planrun.ledger").ledger.__file__)).parent / "sql" / "sqlite"
    names = {file.stem for file in folder.glob("*.sql")}
    inserts = {name for name in names if re.search(r"^INSERT", statement(name), re.MULTILINE)}

    apart = {"keyless", "meta_all", "see_workers", "granted_again", "due", "rebase_workers", "first_since", "ended"}

    assert names - inserts - asked_by_people - apart == {
        *HOT,
        *BY_NAME,
        *NARROW,
        *COUNTING,
    }
