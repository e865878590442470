"""Rules that a caller sees through the port of the ledger, or of a pure function of the core."""

from __future__ import annotations

from .fences import SQL, Fence

VERBS = "ledger/verbs"
SUITES = "tests/contract/test_sqlite_ledger.py"
END_RUNNING = "    _end_running(tx, lease, state, verdict)\n"
CONCLUDE = "    _conclude(tx, lease.job_id, state, lease, error=error, outputs=outputs, value=value)\n"


def contract(name: str, file: str, old: str, new: str, test: str) -> Fence:
    """A rule, seen through the port."""
    return Fence(name, file, old, new, (f"{SUITES}::{test}",))


def core(name: str, file: str, old: str, new: str, test: str) -> Fence:
    return Fence(name, f"core/{file}.py", old, new, (f"tests/core/test_{file}.py::{test}",))


RULES = [
    contract(
        "what is paused is not offered",
        "ledger/verbs/fleet.py",
        "find_pause(pauses, namespace=namespace, kind=handler.kind) is None",
        "True",
        "TestOperator::test_a_paused_job_is_neither_offered_nor_granted_until_it_is_resumed",
    ),
    contract(
        "a retry never joins the job that holds the key by now",
        "ledger/verbs/intake.py",
        "holder is not None and request.retry_of is not None",
        "False",
        "TestSubmit::test_a_retry_takes_the_key_along_unless_another_job_holds_it_by_now",
    ),
    contract(
        "the attempt grows at every return",
        f"{SQL}/requeue.sql",
        "attempt + 1",
        "attempt",
        "TestSettle::test_a_hand_back_is_free_and_due_at_once",
    ),
    contract(
        "tokens grow",
        f"{SQL}/next_n.sql",
        "SET v = v + 1",
        "SET v = v",
        "TestGrant::test_tokens_grow_over_jobs_attempts_and_openings_of_the_ledger",
    ),
    contract(
        "a renewal never shortens",
        f"{SQL}/renew.sql",
        "max(lease_until_ms, :now_ms + beat.lease_ms)",
        ":now_ms + beat.lease_ms",
        "TestLease::test_a_renewal_never_shortens_a_lease",
    ),
    contract(
        "expiry looks at the stamp",
        f"{SQL}/expired.sql",
        " AND lease_until_ms <= :stamp_ms",
        " AND :stamp_ms",
        "TestLease::test_a_lease_ends_only_when_the_stamp_reached_its_end",
    ),
    contract(
        "expiry ends at the stamp itself",
        f"{SQL}/expired.sql",
        "<= :stamp_ms",
        "< :stamp_ms",
        "TestLease::test_a_lease_ends_only_when_the_stamp_reached_its_end",
    ),
    contract(
        "a burial is of one incarnation",
        f"{SQL}/running_of.sql",
        " AND incarnation = :incarnation",
        "",
        "TestLease::test_a_proof_of_death_ends_all_leases_of_that_incarnation_and_no_other",
    ),
    contract(
        "expiry proves no death",
        f"{VERBS}/duties.py",
        'who="sweeper", stopped=False',
        'who="sweeper", stopped=True',
        "TestLease::test_a_lost_worker_costs_a_loss_and_no_attempt_of_the_job",
    ),
    contract(
        "a delayed job waits",
        f"{SQL}/promote.sql",
        " AND not_before_ms <= :now_ms",
        " AND :now_ms",
        "TestSubmit::test_a_delayed_job_waits_its_time",
    ),
    contract(
        "a deadline is not there before its time",
        f"{SQL}/overdue.sql",
        " AND deadline_at_ms <= :wall_ms",
        " AND :wall_ms",
        "TestCancel::test_a_job_past_its_deadline_fails",
    ),
    contract(
        "a confirmed message is done",
        f"{SQL}/take_messages.sql",
        "WHERE confirmed = 0 AND",
        "WHERE",
        "TestOutbox::test_a_confirmed_message_never_comes_again",
    ),
    contract(
        "a message is not due twice at once",
        f"{SQL}/take_messages.sql",
        " AND not_before_ms <= :now_ms",
        " AND :now_ms",
        "TestOutbox::test_an_unconfirmed_message_comes_again_byte_for_byte",
    ),
    contract(
        "garbage waits for its grace",
        f"{SQL}/garbage.sql",
        " AND a.ended_at_ms <= :before_ms",
        " AND :before_ms",
        "TestOutbox::test_garbage_waits_for_its_grace_and_is_named_until_it_is_collected",
    ),
    contract(
        "a running attempt is no garbage",
        f"{SQL}/garbage.sql",
        " AND a.outcome IS NOT NULL AND a.ended_at_ms <= :before_ms\n   AND (j.token IS NULL OR j.token <> a.token)",
        " AND :before_ms",
        "TestOutbox::test_a_running_attempts_files_are_not_garbage",
    ),
    contract(
        "the winner's outputs stay",
        f"{VERBS}/duties.py",
        "keep += [output.key for output in outputs]",
        "outputs.clear()",
        "TestOutbox::test_a_losers_files_are_garbage_and_the_winners_never",
    ),
    contract(
        "a live checkpoint stays",
        f"{VERBS}/duties.py",
        "keep += [file.key for checkpoint in checkpoints for file in checkpoint.files]",
        "checkpoints.clear()",
        "TestCheckpoint::test_the_files_of_a_live_jobs_checkpoint_are_not_garbage",
    ),
    contract(
        "needs are met",
        f"{SQL}/offers.sql",
        "needs = '[]' OR",
        "1 OR",
        "TestGrant::test_all_needs_of_a_job_must_be_met_by_the_one_worker",
    ),
    contract(
        "the line is in order",
        f"{SQL}/offers.sql",
        "priority DESC, id",
        "id",
        "TestGrant::test_the_more_urgent_job_is_offered_first_and_equals_by_their_age",
    ),
    contract(
        "the oldest is the oldest",
        f"{SQL}/oldest.sql",
        " ORDER BY id\n LIMIT :limit",
        " ORDER BY id DESC\n LIMIT :limit",
        "TestGrant::test_the_oldest_is_found_whatever_priorities_there_are",
    ),
    contract(
        "the oldest may be of any priority",
        f"{SQL}/oldest.sql",
        "priority <> 0",
        "priority > 0",
        "TestGrant::test_the_oldest_job_stands_where_it_was_asked_for_and_once",
    ),
    contract(
        "a newer checkpoint gives hand-backs again",
        f"{SQL}/checkpoint.sql",
        ", handbacks = 0",
        "",
        "TestCheckpoint::test_a_newer_checkpoint_gives_all_hand_backs_again",
    ),
    contract(
        "a failed key is free",
        f"{SQL}/end_running.sql",
        "ELSE 0 END",
        "ELSE key_open END",
        "TestSubmit::test_after_failed_or_canceled_the_same_key_makes_a_new_job",
    ),
    contract(
        "a join never lowers priority",
        f"{SQL}/join_job.sql",
        "max(priority, :priority)",
        ":priority",
        "TestSubmit::test_a_join_raises_the_priority_and_never_lowers_it",
    ),
    contract(
        "a request id has one content",
        f"{VERBS}/intake.py",
        'if known["request_hash"] != request.request_hash:',
        "if False:",
        "TestSubmit::test_a_request_id_with_other_content_is_a_conflict",
    ),
    contract(
        "a key has one content",
        f"{VERBS}/intake.py",
        'if holder["content_hash"] != request.content_hash:',
        "if False:",
        "TestSubmit::test_a_key_with_other_content_is_a_conflict",
    ),
    contract(
        "a late subscriber is owed",
        f"{VERBS}/intake.py",
        "        owe_answer(tx, job_id)\n",
        "        pass\n",
        "TestOutbox::test_one_who_asks_after_the_end_is_owed_the_answer_at_once",
    ),
    contract(
        "a batch is all or none",
        "ledger/sqlite/writer.py",
        '"ROLLBACK TO verb; RELEASE verb"',
        '"RELEASE verb"',
        "TestSubmit::test_a_conflict_anywhere_in_a_batch_writes_nothing_of_it",
    ),
    contract(
        "a settle is by the owner",
        f"{VERBS}/ending.py",
        "not owns(job, request.lease):\n        return _settled_before(tx, request)",
        'job["state"] != "running":\n        return _settled_before(tx, request)',
        "TestSettle::test_a_late_attempt_changes_nothing_while_another_runs",
    ),
    contract(
        "a release is by the owner",
        f"{VERBS}/ending.py",
        "not owns(job, request.lease):\n        again",
        'job["state"] != "running":\n        again',
        "TestSettle::test_a_late_release_does_not_free_the_next_attempt",
    ),
    contract(
        "a repeated settle is answered alike",
        f"{VERBS}/ending.py",
        'row["token"] == lease.token and row["outcome"] == request.outcome:',
        "False:",
        "TestSettle::test_a_repeated_settle_gets_the_same_answer",
    ),
    contract(
        "two ends of one attempt are an alarm",
        f"{VERBS}/ending.py",
        'status = "conflict"',
        "pass",
        "TestSettle::test_one_attempt_cannot_end_in_two_ways",
    ),
    contract(
        "the end owes its messages",
        f"{VERBS}/ending.py",
        "        error=dump(error) if error is not None else None,\n    )\n    owe_answer(tx, job_id)\n",
        "        error=dump(error) if error is not None else None,\n    )\n",
        "TestOutbox::test_every_subscriber_is_owed_the_one_answer",
    ),
    contract(
        "the job ends before its subscribers are read",
        f"{VERBS}/ending.py",
        f"{END_RUNNING}{CONCLUDE}",
        f"{CONCLUDE}{END_RUNNING}",
        "TestSettle::test_a_success_is_the_result_of_the_job",
    ),
    contract(
        "an ended job is not canceled",
        f"{VERBS}/ending.py",
        '    if job["ended_at_ms"] is not None:\n        return CancelReply(canceled=False, state=shown_state(job))\n',
        "",
        "TestCancel::test_canceling_twice_keeps_the_first_ones_word",
    ),
    contract(
        "a broken checkpoint is dropped",
        f"{VERBS}/ending.py",
        "else kept[1:]), True",
        "else kept), True",
        "TestCheckpoint::test_a_failure_after_resuming_goes_back_one_checkpoint_and_then_to_the_beginning",
    ),
    contract(
        "a permanent failure after resuming is doubted",
        f"{VERBS}/ending.py",
        "if doubted and outcome is Outcome.PERMANENT else",
        "if False else",
        "TestCheckpoint::test_a_permanent_failure_after_resuming_counts_as_transient_once",
    ),
    contract(
        "a repeated grant needs its nonce",
        f"{VERBS}/holding.py",
        '(made["incarnation"], made["nonce"]) != (request.incarnation, request.nonce)',
        'made["incarnation"] != request.incarnation',
        "TestGrant::test_a_duplicate_offer_to_the_same_worker_does_not_start_the_job_twice",
    ),
    contract(
        "a nonce is one worker's",
        f"{VERBS}/holding.py",
        '(made["incarnation"], made["nonce"]) != (request.incarnation, request.nonce)',
        'made["nonce"] != request.nonce',
        "TestGrant::test_a_nonce_is_worth_nothing_to_another_worker",
    ),
    contract(
        "a repeated grant is of a running attempt",
        f"{VERBS}/holding.py",
        'job["state"] != State.RUNNING or job["token"] != made["token"]',
        "False",
        "TestGrant::test_a_repeated_grant_of_an_attempt_that_ended_is_refused",
    ),
    contract(
        "another boot's leases end",
        f"{VERBS}/duties.py",
        'lose(tx, row["job_id"], "the machine was rebooted", who="reboot", stopped=True)',
        "pass",
        "TestLease::test_after_a_reboot_every_lease_of_the_other_boot_ends_at_once",
    ),
    contract(
        "another boot's waits are moved",
        f"{VERBS}/duties.py",
        'tx.rows("rebase_jobs", shift_ms=shift_ms)',
        "pass",
        "TestLease::test_a_reboot_does_not_stretch_a_wait",
    ),
    contract(
        "another boot's messages are moved",
        f"{VERBS}/duties.py",
        'tx.rows("rebase_messages", shift_ms=shift_ms)',
        "pass",
        "TestLease::test_a_reboot_does_not_stretch_a_wait",
    ),
]

CORE_RULES = [
    core(
        "expiry is sticky",
        "lease",
        "if self.expired or now_ms >= self.trusted_until_ms:\n            return replace(self, expired=True)",
        "if False:\n            return self",
        "test_a_confirmation_that_comes_too_late_does_not_revive_the_lease_nor_does_the_next",
    ),
    core(
        "trust counts from the sending",
        "lease",
        "return self._extended(sent_ms)\n\n    def answered",
        "return self._extended(now_ms)\n\n    def answered",
        "test_trust_counts_from_the_sending_not_from_the_answer",
    ),
    core(
        "trust never moves back",
        "lease",
        "max(self.trusted_until_ms, sent_ms + self.lease_ms)",
        "sent_ms + self.lease_ms",
        "test_an_answer_to_an_older_renewal_does_not_move_the_deadline_back",
    ),
    core(
        "a seen expiry is kept",
        "lease",
        "return not self.expired and now_ms",
        "return now_ms",
        "test_a_confirmation_that_comes_too_late_does_not_revive_the_lease_nor_does_the_next",
    ),
    core(
        "failures run out",
        "budget",
        "used >= budgets.max_attempts",
        "used > budgets.max_attempts",
        "test_a_failing_job_waits_2_then_4_then_8_seconds_and_then_fails",
    ),
    core(
        "losses run out",
        "budget",
        "used >= budgets.max_losses",
        "False",
        "test_the_first_loss_costs_no_wait_and_the_eighth_ends_the_job",
    ),
    core(
        "hand-backs run out",
        "budget",
        "used > budgets.max_handbacks",
        "False",
        "test_twenty_handbacks_are_free_and_the_next_ends_the_job",
    ),
    core(
        "the first loss waits nothing",
        "budget",
        "backoff_ms(used - 1)",
        "backoff_ms(used)",
        "test_the_first_loss_costs_no_wait_and_the_eighth_ends_the_job",
    ),
    core(
        "a generation stands above the count",
        "names",
        "_GENERATION_SHIFT = 40",
        "_GENERATION_SHIFT = 0",
        "test_the_first_token_of_a_generation_is_above_the_last_of_the_one_before",
    ),
    core(
        "the token is in the key",
        "names",
        "{attempt}-{token:x}/",
        "{attempt}/",
        "test_the_same_attempt_granted_again_after_a_restore_has_its_own_prefix",
    ),
]
