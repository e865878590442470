"""Every fence of the ledger and the core, as an edit that removes it and the tests of which one must then fail.

A clause `state = 'running'` beside `token = :token` is left out: a CHECK of the schema gives a token to running
jobs alone, so its removal changes nothing (TAMPERING has the CHECK).
"""

from __future__ import annotations

from typing import NamedTuple

from .economy import WASTED


class Fence(NamedTuple):
    """One guard, and the mutant that is without it.

    It is there for safety, without it something wrong may become visible to somebody, or a job be lost or left lying:
    unless `economy.py` says what merely is wasted.

    Attributes:
        file: Below `src/planrun`.
        old: Text that stands there exactly once.
        new: What replaces it.
        tests: Node ids, of which at least one must fail.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def kind(self) -> str:
        return "economy" if self.wastes else "safety"

    @property
    def wastes(self) -> str:
        return WASTED.get(self.name, "")


SQL = "ledger/sql/sqlite"
SCHEMA = "ledger/migrations/sqlite/0001_initial.sql"
CLOSING = "ledger/migrations/sqlite/0010_closing.sql"
STATEMENTS = "tests/ledger/test_statements.py"
TAMPERING = "tests/ledger/test_tampering.py"
OUTDATED = (
    "tests/ledger/test_versions.py"
    "::test_an_old_process_starts_and_takes_in_nothing_after_a_migration_that_breaks_and_what_it_runs_ends"
)


def statement(file: str, old: str, new: str, test: str) -> Fence:
    """A clause of a statement, seen by the test of that statement."""
    return Fence(f"{file}: {old.strip()}", f"{SQL}/{file}.sql", old, new, (f"{STATEMENTS}::{test}",))


DRAIN = "TestOtherFences::test_only_a_ready_worker_is_drained_and_only_what_somebody_drained_is_undone"
HOLDER = "TestStatementsOfAHolder::test_a_wrong_job_attempt_or_token_matches_nothing"
CLAUSES = [
    statement(file, old, "", f"{HOLDER}[wrong{wrong}-{file}-values{n}]")
    for n, file in enumerate(["renew", "stage", "checkpoint", "requeue", "end_running", "end_attempt", "extend"])
    if file not in ("renew", "stage")  # its clauses have other names or stand twice: below
    for wrong, old in [(1, " AND attempt = :attempt"), (2, " AND token = :token")]
]
CLAUSES += [
    *(
        statement("renew", old, "", f"{HOLDER}[wrong{wrong}-renew-values0]")
        for wrong, old in [(1, " AND job.attempt = beat.attempt"), (2, " AND job.token = beat.token")]
    ),
    statement(
        "stage",
        "\n   AND EXISTS (SELECT 1 FROM job WHERE job_id = :job_id AND state = 'running'"
        " AND attempt = :attempt AND token = :token)",
        "",
        "TestStatementsOfAHolder::test_once_the_job_went_on_the_old_lease_matches_nothing",
    ),
    statement("grant", "   AND state = 'queued'\n", "", "TestGrant::test_a_running_job_matches_nothing"),
    statement("grant", "   AND attempt = :attempt\n", "", "TestGrant::test_another_attempt_matches_nothing"),
    statement(
        "grant", "   AND not_before_ms <= :now_ms\n", "", "TestGrant::test_a_job_that_is_not_due_matches_nothing"
    ),
    statement(
        "grant",
        "   AND NOT EXISTS (SELECT 1 FROM pause\n"
        "                    WHERE resumed_at_ms IS NULL"
        " AND namespace IN ('', job.namespace) AND kind IN ('', job.kind))\n",
        "",
        "TestGrant::test_a_paused_job_matches_nothing",
    ),
    statement(
        "resume",
        " AND resumed_at_ms IS NULL",
        "",
        "TestOtherFences::test_a_pause_that_was_resumed_stays_in_the_history_as_it_is",
    ),
    statement("drain", " AND state = 'ready'", "", DRAIN),
    statement("undrain", " AND state = 'draining'", "", DRAIN),
    statement(
        "undrain",
        "\n   AND EXISTS (SELECT 1 FROM drain WHERE drain.incarnation = worker.incarnation AND ended_at_ms IS NULL)",
        "",
        DRAIN,
    ),
    statement(
        "end_drain",
        " AND ended_at_ms IS NULL",
        "",
        "TestOtherFences::test_a_drain_that_is_over_stays_in_the_history_as_it_is",
    ),
    statement(
        "grant",
        "   AND EXISTS (SELECT 1 FROM worker WHERE incarnation = :incarnation AND state = 'ready')\n",
        "",
        "TestGrant::test_a_worker_that_is_unknown_matches_nothing",
    ),
    *(
        statement("requeue", f"   AND {text}\n", "", "TestOtherFences::test_a_spent_budget_lets_nobody_back_in_line")
        for text in (
            "failures + :failures < max_attempts",
            "losses + :losses < max_losses",
            "handbacks + :handbacks <= max_handbacks",
        )
    ),
    statement(
        "checkpoint",
        "(:attempt, :seq))",
        "(:attempt, :seq) OR 1)",
        "TestOtherFences::test_only_a_newer_checkpoint_is_taken",
    ),
    statement(
        "end_queued",
        " AND state = 'queued'",
        "",
        "TestOtherFences::test_only_a_waiting_job_at_its_attempt_is_ended_as_waiting",
    ),
    statement(
        "end_queued",
        " AND attempt = :attempt",
        "",
        "TestOtherFences::test_only_a_waiting_job_at_its_attempt_is_ended_as_waiting",
    ),
    statement("end_attempt", " AND outcome IS NULL", "", "TestOtherFences::test_an_attempts_first_outcome_stands"),
    statement(
        "stopped",
        " AND attempt = :attempt",
        "",
        "TestOtherFences::test_stopped_and_collected_are_said_of_exactly_one_ended_attempt",
    ),
    statement(
        "stopped",
        " AND token = :token AND stopped",
        " AND stopped",
        "TestOtherFences::test_stopped_and_collected_are_said_of_exactly_one_ended_attempt",
    ),
    statement(
        "collected",
        " AND outcome IS NOT NULL",
        "",
        "TestOtherFences::test_stopped_and_collected_are_said_of_exactly_one_ended_attempt",
    ),
    statement(
        "say_progress",
        " AND token = :token",
        "",
        "TestOtherFences::test_progress_of_an_ended_attempt_or_another_token_is_not_taken",
    ),
    statement(
        "say_progress",
        " AND outcome IS NULL",
        "",
        "TestOtherFences::test_progress_of_an_ended_attempt_or_another_token_is_not_taken",
    ),
    statement(
        "join_job", " AND state IN ('queued', 'running')", "", "TestOtherFences::test_only_an_open_job_is_joined"
    ),
    statement(
        "all_stopped",
        " AND outcome IS NOT NULL",
        "",
        "TestOtherFences::test_a_proof_of_death_says_nothing_of_an_attempt_that_is_still_open",
    ),
]

SECOND_LINE = [
    *(
        Fence(
            f"trigger {name}",
            schema,
            f"CREATE TRIGGER {name} BEFORE",
            f"CREATE TEMP TRIGGER {name} BEFORE",
            (f"{TAMPERING}::{test}",),
        )
        for schema, name, test in [
            (CLOSING, "job_frozen", "test_an_ended_job_cannot_be_changed"),
            (SCHEMA, "job_fence", "test_an_attempt_cannot_go_back"),
            (CLOSING, "result_frozen", "test_a_result_cannot_be_changed"),
            (CLOSING, "closing_ends", "test_an_answer_that_was_said_cannot_be_taken_back"),
            (SCHEMA, "result_ended", "test_a_live_job_cannot_have_a_result"),
        ]
    ),
    Fence(
        "a token is a running job's",
        SCHEMA,
        "  CHECK((state='running') = (token IS NOT NULL)),\n",
        "",
        (f"{TAMPERING}::test_a_row_that_makes_no_sense_is_refused",),
    ),
    Fence(
        "one open job per key",
        SCHEMA,
        "CREATE UNIQUE INDEX job_key",
        "CREATE INDEX job_key",
        (f"{TAMPERING}::test_two_open_jobs_never_share_a_key",),
    ),
    Fence(
        "every commit reaches the disk",
        "ledger/sqlite/database.py",
        '("synchronous", "full")',
        '("synchronous", "normal")',
        ("tests/ledger/test_opening.py::test_every_commit_is_on_the_disk_before_it_is_answered",),
    ),
    Fence(
        "another program's database is left alone",
        "ledger/sqlite/database.py",
        """    if connection.pragma("user_version") or connection.execute""",
        """    if False and connection.execute""",
        ("tests/ledger/test_opening.py::test_another_programs_database_is_refused_and_left_alone",),
    ),
    Fence(
        "what lies on an automount is what counts",
        "ledger/sqlite/database.py",
        "if len(point) >= length",
        "if len(point) > length",
        ("tests/ledger/test_opening.py::test_of_two_mounts_at_one_place_the_later_one_counts",),
    ),
    Fence(
        "a mount is found whatever its name is",
        "ledger/sqlite/database.py",
        'os.fsdecode(escaped.decode("unicode_escape").encode("latin-1"))',
        'escaped.decode("unicode_escape")',
        ("tests/ledger/test_opening.py::test_a_mount_is_found_whatever_its_name_is",),
    ),
    Fence(
        "where every turn is slow leases end all the same",
        "ledger/sqlite/access.py",
        "max(DELAYED_MS, 2 * self._usual_ms(asked_ms))",
        "DELAYED_MS",
        ("tests/ledger/test_access.py::test_a_disk_that_is_slow_for_good_keeps_no_lease_for_ever",),
    ),
    Fence(
        "after a stall holders have a moment, however slow the turns before it were",
        "ledger/sqlite/access.py",
        "max(DELAYED_MS, 2 * self._usual_ms(asked_ms))",
        "(math.inf if self._usual_ms(asked_ms) else DELAYED_MS)",
        ("tests/ledger/test_access.py::test_a_turn_that_is_much_slower_than_those_before_it_is_trouble",),
    ),
    Fence(
        "one stall does not make the next one ordinary",
        "ledger/sqlite/access.py",
        "self._usual_ms(asked_ms) // 2",
        "self._usual_ms(asked_ms)",
        ("tests/ledger/test_access.py::test_a_stall_does_not_make_later_ones_ordinary",),
    ),
    Fence(
        "nothing is read apart from a file without a name",
        "ledger/sqlite/reader.py",
        "        self._refuse_loss()\n        try:\n            connection",
        "        try:\n            connection",
        ("tests/ledger/test_bad_days.py::test_a_ledger_that_is_gone_under_an_open_process_takes_nothing_in",),
    ),
    Fence(
        "nothing is written to a file without a name",
        "ledger/sqlite/writer.py",
        "            if loss := self._file.find_loss():\n",
        "            if loss := '':\n",
        ("tests/ledger/test_bad_days.py::test_a_ledger_that_is_gone_under_an_open_process_takes_nothing_in",),
    ),
    Fence(
        "what was committed to a file without a name is not answered",
        "ledger/sqlite/writer.py",
        "            if whole and (loss := self._file.find_loss()):\n",
        "            if loss := '':\n",
        ("tests/ledger/test_bad_days.py::test_a_loss_that_is_seen_only_after_a_commit_leaves_the_call_unanswered",),
    ),
    *(
        Fence(f"an outdated process {what} nothing", file, "    refuse_outdated(tx)\n", "", (OUTDATED,))
        for what, file in (("starts", "ledger/verbs/holding.py"), ("takes in", "ledger/verbs/intake.py"))
    ),
]
