"""The fences of what goes when it was kept long enough, and of public names."""

from __future__ import annotations

from .fences import SQL, Fence
from .rules import contract, core

STATEMENTS = "tests/ledger/test_retention_statements.py"


def goes(file: str, old: str, new: str, *tests: str) -> Fence:
    """A clause of a statement that drops something."""
    return Fence(
        f"{file}: {old.strip()}", f"{SQL}/{file}.sql", old, new, tuple(f"{STATEMENTS}::{test}" for test in tests)
    )


KEPT_JOB = "test_its_result_its_files_a_message_or_news_keep_a_job"
OWED = "NOT EXISTS (SELECT 1 FROM outbox AS o"
NOT_OWED = OWED.replace("EXISTS", "0 * EXISTS")  # true, whatever stands around it
RETENTION = [
    goes("drop_results", "   AND ended_at_ms IS NOT NULL\n", "", "test_an_open_job_has_no_result_that_could_go"),
    goes("drop_results", OWED, NOT_OWED, "test_a_message_that_is_owed_keeps_the_result"),
    goes("uncollect", " AND j.result_gone_at_ms IS NOT NULL", "",
         "test_only_the_winners_files_become_garbage_and_only_once_the_result_is_gone"),
    goes("uncollect", " OR EXISTS (SELECT 1 FROM meta WHERE k = 'beat_epoch')", "",
         "test_in_a_fleet_the_log_of_a_job_without_files_goes_with_its_result"),
    contract(
        "who may not shorten how long results are kept does not",
        f"{SQL}/put_keep.sql",
        "iif(:may_shorten, excluded.result_ttl_ms, max(result_ttl_ms, excluded.result_ttl_ms))",
        "excluded.result_ttl_ms",
        "TestRetention::test_who_may_not_shorten_how_long_results_are_kept_may_lengthen_it",
    ),
    contract(
        "the log of the attempt that won is kept as long as its result",
        "ledger/verbs/duties.py",
        "            keep.append(log_key(",
        "            str(log_key(",
        "TestOutbox::test_a_canceled_jobs_files_are_garbage",
    ),
    goes("uncollect", "r.token = attempt.token AND ", "",
         "test_only_the_winners_files_become_garbage_and_only_once_the_result_is_gone"),
    goes("archive_jobs", "j.result_gone_at_ms IS NOT NULL", "1", KEPT_JOB),
    goes("archive_jobs", "a.collected = 0", "0", KEPT_JOB),
    goes("archive_jobs", OWED, NOT_OWED, KEPT_JOB),
    goes("archive_jobs", "e.id > s.value", "0", KEPT_JOB),
    *(
        goes(name, " AND job_id IN (SELECT job_id FROM archived)", "",
             f"test_rows_of_a_job_go_only_once_it_is_archived[{name}-{table}]")
        for name, table in [
            ("drop_jobs", "job"), ("drop_attempts", "attempt"), ("drop_events", "event"),
            ("drop_result_rows", "result"), ("drop_subscribers", "subscriber"),
        ]
    ),
    goes("tell_subscribers", " AND o.confirmed = 1", "", "test_only_a_confirmed_message_goes_and_counts_as_told"),
    goes("drop_messages", " AND confirmed = 1", "", "test_only_a_confirmed_message_goes_and_counts_as_told"),
    goes("drop_ids", " AND NOT EXISTS (SELECT 1 FROM job WHERE job.job_id = archived.job_id)", "",
         "test_an_id_and_its_requests_go_never_before_their_job"),
    goes("drop_requests", " AND NOT EXISTS (SELECT 1 FROM job WHERE job.job_id = request.job_id)", "",
         "test_an_id_and_its_requests_go_never_before_their_job"),
    goes("drop_workers", " AND seen_at_ms <= :before_ms", "",
         "test_a_worker_that_was_seen_or_may_still_run_something_stays"),
    goes("drop_workers", "a.stopped = 0", "0", "test_a_worker_that_was_seen_or_may_still_run_something_stays"),
    goes("take_public_name", " WHERE seq <= excluded.seq", "",
         "test_a_public_name_stays_with_the_one_who_asked_last"),
    goes("tell_subscriber", " AND ended_at_ms IS NOT NULL", "",
         "test_a_subscriber_of_an_open_job_cannot_be_called_told"),
    goes("release_messages", "p.confirmed = 0", "0", "test_messages_wait_until_the_last_public_file_stands"),
    goes("release_messages", " AND tries = 0", "", "test_messages_wait_until_the_last_public_file_stands"),
    goes("keep_requests", " AND job_id IN (SELECT job_id FROM archived)", "",
         "test_the_request_of_a_job_is_kept_apart_only_once_the_job_is_archived"),
    contract(
        "the request that made a job stays known after it",
        "ledger/verbs/retention.py",
        '    tx.rows("keep_requests", job_ids=dump(jobs))\n',
        "",
        "TestRetention::test_a_repeated_request_never_makes_a_second_job_and_who_wants_the_answer_sent_is_refused",
    ),
    contract(
        "only a job that finished takes a name",
        "ledger/verbs/answers.py",
        "if result.state is State.FINISHED:",
        "if True:",
        "TestPublicName::test_a_later_job_that_did_not_finish_takes_no_name",
    ),
    contract(
        "a message waits for the public file that it names",
        "ledger/verbs/answers.py",
        " if held else 0)",
        " if False else 0)",
        "TestPublicName::test_a_message_that_names_a_public_file_waits_for_it",
    ),
    *(
        Fence(name, "orchestrator/publisher.py", old, new, (f"tests/orchestrator/test_publisher.py::{test}",))
        for name, old, new, test in [
            (
                "whose a name is is asked before the rename",
                "        if not await self._is_ours(result, route):\n            return False\n",
                "",
                "test_the_later_job_wins_over_one_that_stood_still_in_between[publish:copied]",
            ),
            (
                "whose a name is is asked after the rename",
                "            if await self._is_ours(result, route):\n                return Said(What.PUBLISHED",
                "            if True:\n                return Said(What.PUBLISHED",
                "test_the_later_job_wins_over_one_that_stood_still_in_between[publish:renamed]",
            ),
            (
                "one at a time writes a name",
                "            if not is_ours:\n",
                "            if False:\n",
                "test_the_later_job_wins_over_one_that_stood_still_in_between[publish:before-rename]",
            ),
        ]
    ),
    contract(
        "a result that is gone is nobody's",
        "ledger/verbs/answers.py",
        ' and row["result_gone_at_ms"] is None and not',
        " and not",
        "TestRetention::test_a_result_that_is_gone_is_nobodys_and_its_job_still_says_how_it_ended",
    ),
    contract(
        "the winner's files stay until the row says gone",
        f"{SQL}/garbage.sql",
        " AND j.result_gone_at_ms IS NULL",
        "",
        "TestRetention::test_the_row_says_gone_before_the_files_are_garbage",
    ),
    contract(
        "who was told is not told again",
        f"{SQL}/subscribers.sql",
        " AND told = 0",
        "",
        "TestRetention::test_a_message_goes_a_day_after_it_was_confirmed_and_is_never_owed_again",
    ),
    *(
        Fence(name, "orchestrator/retention.py", old, new, (f"tests/orchestrator/test_retention.py::{test}",))
        for name, old, new, test in [
            (
                "a record is in the archive before its job goes",
                "            await asyncio.to_thread(self._archive.add, records)\n",
                "",
                "test_a_record_that_cannot_be_written_keeps_its_job",
            ),
            (
                "while the clock is doubted nothing goes",
                "if not doubt_ms or self._believe_clock:",
                "if True:",
                "test_while_the_wall_clock_is_doubted_nothing_goes_and_that_is_said_once",
            ),
            (
                "one at a time appends to the archive",
                "            if not is_ours:\n                return now_ms + LOOK_EVERY_MS\n",
                "",
                "test_of_two_that_do_it_at_once_one_leaves_it_to_the_other",
            ),
        ]
    ),
    core(
        "a step of the wall clock is doubted",
        "keeping",
        "DOUBT_MS if abs(stepped_ms) > STEP_MS_MAX else",
        "0 if abs(stepped_ms) > STEP_MS_MAX else",
        "test_a_step_either_way_begins_a_day_of_doubt_and_drift_does_not",
    ),
]  # fmt: skip
