"""Which rows a statement may touch: as they were when somebody looked, and no other's.

The verbs look before they write, so most of these are a second line: what only a race could show is asked of the
statement itself.
"""

from __future__ import annotations

from .fences import SQL, Fence, statement
from .retention import goes
from .rules import SUITES

KEYRING = "tests/contract/test_sqlite_keyring.py"
PLANS = "tests/ledger/test_plans.py"
HOLDER = "TestStatementsOfAHolder::test_a_wrong_job_attempt_or_token_matches_nothing"
CLOSING = "TestClosing::test_only_what_is_closing_at_the_attempt_that_was_read_is_adopted"
ELSEWHERE = "TestClosing::test_only_what_is_open_at_the_attempt_that_was_read_ends_elsewhere"
ONE_ENDED = "TestOtherFences::test_stopped_and_collected_are_said_of_exactly_one_ended_attempt"
ONE_ATTEMPT = "TestSecondAttempt::test_what_is_staged_is_of_one_attempt"
RESUMABLE = "TestSecondAttempt::test_what_a_live_job_may_resume_from_is_not_called_collected"
PROGRESS = "TestOtherFences::test_progress_of_an_ended_attempt_or_another_token_is_not_taken"
SET = "TestOtherFences::test_exactly_the_set_that_was_asked_for_is_resumed"
OTHERS = "test_what_another_job_left_keeps_nothing_of_this_one"
RELEASED = "test_messages_wait_until_the_last_public_file_stands"
KEPT_RESULT = "test_a_result_that_is_gone_or_not_said_does_not_go"
HALF_OPEN = "o.msg_id {} 'result:' || {}.job_id || {}"


def planned(file: str, old: str, index: str, kind: str = "a_hot_statement_searches_its_index_and_never_sorts") -> Fence:
    """A clause for which alone the statement may use its index: without it all rows that ever were are read."""
    return Fence(f"{file}: {old.strip()}", f"{SQL}/{file}.sql", old, "", (f"{PLANS}::test_{kind}[{file}-{index}]",))


SWEEP = "a_sweep_reads_only_what_is_open"
ROWS = [
    # an answer that another history of the ledger has said
    statement("close_job", " AND attempt = :attempt", "", f"{CLOSING}[close_job]"),
    statement("adopt_end", " AND attempt = :attempt", "", f"{CLOSING}[adopt_end]"),
    statement("adopt_end", " AND closing = 1", "", f"{CLOSING}[adopt_end]"),
    statement(
        "adopt_result",
        "EXISTS (SELECT 1 FROM job WHERE job_id = :job_id AND closing = 1)", "1", f"{CLOSING}[adopt_result]",
    ),
    statement("end_elsewhere", " AND attempt = :attempt", "", ELSEWHERE),
    statement("end_elsewhere", " AND ended_at_ms IS NULL", "", ELSEWHERE),
    # one attempt
    statement("stage", " AND attempt = :attempt\n", "\n", ONE_ATTEMPT),
    statement("stage", " AND token = :token)", ")", f"{HOLDER}[wrong2-stage-values1]"),
    statement("say_progress", " AND attempt = :attempt", "", PROGRESS),
    statement("collected", " AND attempt = :attempt", "", f"{ONE_ENDED}[collected-attempt]"),
    statement("collected", " AND token = :token", "", f"{ONE_ENDED}[collected-token]"),
    statement("collected", "EXISTS (SELECT 1 FROM job", "1 + EXISTS (SELECT 1 FROM job", RESUMABLE),
    statement("collected", "ended_at_ms IS NOT NULL", "0", RESUMABLE),
    statement(
        "stopped",
        "NOT EXISTS (SELECT 1 FROM job WHERE job_id = :job_id AND state = 'running' AND token = :token)", "1",
        f"{ONE_ENDED}[stopped-token]",
    ),
    statement("stopped", " AND stopped = 0", "", "TestOtherFences::test_an_attempt_stops_once"),
    statement("all_stopped", "incarnation = :incarnation AND ", "",
              "TestOtherFences::test_a_proof_of_death_says_nothing_of_another_worker"),
    statement("unsee_worker", " AND seen_at_ms >= :before_ms", "",
              "TestOtherFences::test_who_was_not_seen_for_long_is_not_seen_again_by_his_death"),
    # one message, one set, one token
    statement("confirm", " AND confirmed = 0", "", "TestOtherFences::test_a_message_arrives_once"),
    statement("resume", "namespace = :namespace AND ", "", SET),
    statement("resume", " AND kind = :kind", "", SET),
    Fence("a token is revoked once", f"{SQL}/revoke_access_token.sql", " AND revoked_at_ms IS NULL", "",
          (f"{KEYRING}::TestKeyring::test_one_is_revoked_once_and_stays_in_the_list",)),
    # what goes
    goes("drop_results", "   AND result_gone_at_ms IS NULL\n", "", f"{KEPT_RESULT}[0]"),
    goes("drop_results", "   AND closing = 0\n", "", f"{KEPT_RESULT}[1]"),
    goes("drop_results", "o.confirmed = 0", "1", "test_a_message_that_is_owed_keeps_the_result[1]"),
    *(
        goes(file, HALF_OPEN.format(sign, job, end), "1", OTHERS)
        for file, job in (("drop_results", "job"), ("archive_jobs", "j"))
        for sign, end in ((">=", "':'"), ("<", "char(59)"))
    ),
    goes("archive_jobs", "a.job_id = j.job_id AND ", "", OTHERS),
    goes("archive_jobs", "e.job_id = j.job_id AND ", "", OTHERS),
    goes("drop_workers", "a.incarnation = worker.incarnation AND ", "", OTHERS),
    goes("uncollect", "j.job_id = attempt.job_id AND ", "",
         "test_a_token_that_another_history_gave_to_another_job_makes_no_garbage_here"),
    goes("keep_requests", "\n   AND request_id IS NOT NULL", "",
         "test_of_a_job_that_was_made_before_jobs_had_their_request_nothing_is_kept_apart"),
    # who is told
    goes("tell_subscriber", " AND route = :route", "", "test_one_subscriber_of_a_job_is_called_told"),
    goes("release_messages", "msg_id >= 'result:' || :job_id || ':' AND ", "", RELEASED),
    goes("release_messages", " AND msg_id < 'result:' || :job_id || char(59)", "", RELEASED),
    goes("release_messages", "p.msg_id >= 'result:' || :job_id || ':publish:' AND ", "", RELEASED),
    goes("release_messages", " AND p.msg_id < 'result:' || :job_id || ':publish' || char(59)", "", RELEASED),
    # what is swept
    Fence("an ended job has no deadline", f"{SQL}/overdue.sql", " AND ended_at_ms IS NULL", "",
          (f"{SUITES}::TestCancel::test_a_job_past_its_deadline_fails[False]",)),
    planned("promote", "state = 'queued' AND ", "job_delayed"),
    planned("promote", "not_before_ms > 0 AND ", "job_delayed"),
    planned("rebase_jobs", "state = 'queued' AND ", "job_delayed"),
    planned("rebase_jobs", " AND not_before_ms > 0", "job_delayed"),
    planned("all_stopped", " AND stopped = 0", "attempt_alive"),
    planned("rebase_messages", " WHERE confirmed = 0", "outbox_due", SWEEP),
    planned("rearm", "state = 'running' AND ", "job_lease", SWEEP),
]  # fmt: skip
