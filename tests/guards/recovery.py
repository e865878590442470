"""The fences between the end of a job and its answer, and between one history of a ledger and another."""

from __future__ import annotations

from .fences import CLOSING, SQL, Fence, statement
from .rules import VERBS, contract, core

UNTIL = "TestClosing::test_until_its_manifest_stands_a_job_runs_for_everybody"
KEPT = "TestClosing::test_a_closing_job_is_not_dropped_and_none_of_it_is_garbage"
GARBAGE = "TestRecovery::test_while_recovering_and_of_an_open_job_of_older_tokens_nothing_is_garbage"
GENERATIONS = "tests/orchestrator/test_generations.py"
RECOVERIES = "tests/orchestrator/test_recovery.py"
STRICT = "coalesce((SELECT v FROM meta WHERE k = 'strict'), 0)"
TOLD = "test_any_other_copy_is_told_what_was_found"
RUNS = "test_the_newest_copy_may_run"


def orchestrator(name: str, file: str, old: str, new: str, test: str) -> Fence:
    """A rule of the orchestrator, seen with a store."""
    return Fence(name, f"orchestrator/{file}.py", old, new, (test,))


RECOVERY = [
    contract("what ends while it runs is closing", f"{SQL}/end_running.sql", STRICT, "0", f"{UNTIL}[finished]"),
    contract("what ends while it waits is closing", f"{SQL}/end_queued.sql", STRICT, "0", f"{UNTIL}[unsupported]"),
    contract(
        "what a recovery forgot may run on", f"{SQL}/live_tokens.sql",
        "WHERE k = 'recovered_at_ms') > :silent_since_ms", "WHERE k = 'recovered_at_ms') IS NULL",
        "TestRecovery::test_what_runs_and_was_forgotten_may_write_on_for_as_long_as_any_attempt",
    ),
    contract(
        "an unknown token of this generation is of an attempt that was archived", f"{SQL}/live_tokens.sql",
        " value >> 40 < (", " value >> 40 <= (",
        "TestRecovery::test_what_runs_and_was_forgotten_may_write_on_for_as_long_as_any_attempt",
    ),
    contract(
        "nobody gets the result of a closing job",
        f"{VERBS}/answers.py", ' and not row["closing"] else None', " else None", f"{UNTIL}[failed]",
    ),
    contract(
        "a closing job is seen to run",
        f"{VERBS}/requests.py", 'State.RUNNING if row["closing"] else ', "", f"{UNTIL}[canceled]",
    ),
    contract(
        "how its last attempt ended is not said",
        f"{VERBS}/reading.py", '_OPEN if row["attempt"] == unsaid else {}', "{}", f"{UNTIL}[finished]",
    ),
    contract(
        "its history does not say it either",
        f"{VERBS}/reading.py", "row.attempt == unsaid and row.what in ENDS", "False", f"{UNTIL}[finished]",
    ),
    contract(
        "a closing job is not listed by its end",
        f"{SQL}/newest_of_set.sql", "id NOT IN (SELECT id FROM job WHERE closing = 1)", "1",
        "TestClosing::test_a_list_has_a_closing_job_among_those_that_run",
    ),
    contract(
        "a closing job is joined",
        f"{VERBS}/intake.py", ' or (row is not None and row["closing"])', "",
        "TestClosing::test_a_caller_that_joins_a_closing_job_is_told_with_the_others",
    ),
    contract("the result of a closing job is kept", f"{SQL}/stale_results.sql", " AND j.closing = 0", "", KEPT),
    contract("nothing of a closing job is garbage", f"{SQL}/garbage.sql", "j.closing = 0", "1", KEPT),
    contract(
        "while recovering nothing is garbage",
        f"{SQL}/garbage.sql", "NOT EXISTS (SELECT 1 FROM meta WHERE k = 'recovering')", "1", GARBAGE,
    ),
    contract(
        "a manifest may name what an older generation stored",
        f"{SQL}/garbage.sql", "NOT EXISTS (SELECT 1 FROM meta WHERE k = 'recovered_at_ms')", "1", GARBAGE,
    ),
    contract(
        "every end is counted",
        CLOSING, "UPDATE meta SET v=v+1 WHERE k='next_n'", "UPDATE meta SET v=v WHERE k='next_n'",
        "TestClosing::test_every_end_is_counted_so_that_a_copy_without_it_has_counted_less[failed]",
    ),
    contract(
        "what stands in the store is the answer",
        f"{VERBS}/closing.py", "if stored_result(tx, result.job_id) == result:", "if True:",
        "TestClosing::test_another_answer_that_stands_in_the_store_is_the_answer",
    ),
    contract(
        "an answer that was said stays",
        f"{VERBS}/closing.py", '(job["ended_at_ms"] is not None and not job["closing"])', "False",
        "TestClosing::test_an_answer_that_was_said_is_never_replaced",
    ),
    contract(
        "a key that is taken stays taken",
        f"{SQL}/adopt_end.sql", "AND o.key_open = 1", "AND 0",
        "TestClosing::test_a_failure_in_the_store_frees_the_key_and_one_that_is_taken_stays_taken",
    ),
    contract(
        "the attempts of another history do not come again",
        f"{SQL}/end_elsewhere.sql", "max(attempt, :won_attempt)", "attempt",
        "TestRecovery::test_a_job_that_is_open_here_ends_as_its_manifest_says[queued]",
    ),
    contract(
        "a job that only the store knows is written down",
        f"{VERBS}/closing.py", " or _write_down(tx, manifest)", "",
        "TestRecovery::test_a_job_that_only_the_store_knows_answers_under_its_ids_and_its_key",
    ),
    contract(
        "a generation never goes back",
        f"{SQL}/take_generation.sql", " AND v <= :generation", "",
        "TestRecovery::test_a_new_generation_has_higher_tokens_and_never_goes_back",
    ),
    contract(
        "a ledger that is behind grants nothing",
        f"{SQL}/grant.sql", "NOT EXISTS (SELECT 1 FROM meta WHERE k = 'rolled_back')", "1",
        "TestRecovery::test_a_sealed_offer_of_an_attempt_ahead_of_the_ledger_stops_all_grants",
    ),
    contract(
        "a sealed token that was not given out is proof",
        f"{VERBS}/holding.py", "    heed_lease(tx, lease)\n", "",
        "TestRecovery::test_a_sealed_token_that_was_not_given_out_is_proof_that_the_ledger_was_rolled_back",
    ),
    contract(
        "a sealed token of a job that is not known is proof, too",
        f"{VERBS}/holding.py", "    heed_lease(tx, lease)\n",
        '    if one(tx, "job_state", job_id=lease.job_id) is not None:\n        heed_lease(tx, lease)\n',
        "TestRecovery::test_a_sealed_token_of_a_job_that_is_not_known_is_proof_too",
    ),
    contract(
        "a sealed offer that was not made is proof",
        f"{VERBS}/holding.py", '        heed_offer(tx, request, job["attempt"])\n', "",
        "TestRecovery::test_a_sealed_offer_of_an_attempt_ahead_of_the_ledger_stops_all_grants",
    ),
    contract(
        "a high token without its seal proves nothing",
        f"{VERBS}/recovering.py", "token_of(generation, n) and _is_ours(", "token_of(generation, n) or _is_ours(",
        "TestRecovery::test_a_high_number_without_its_seal_proves_nothing",
    ),
    contract(
        "an attempt ahead without its seal proves nothing",
        f"{VERBS}/recovering.py", "if _is_ours(tx, offered.seal, offered.job_id, offered.attempt):", "if True:",
        "TestRecovery::test_an_attempt_that_was_not_offered_proves_nothing",
    ),
    contract(
        "each generation has seals of its own",
        f"{VERBS}/recovering.py", '    tx.rows("set_meta", k=SEAL_KEY, v=seal_key)\n',
        '    one(tx, "meta", k=SEAL_KEY) or tx.rows("set_meta", k=SEAL_KEY, v=seal_key)\n',
        "TestRecovery::test_what_another_generation_has_sealed_proves_nothing",
    ),
    contract(
        "a seal is of its job, attempt and token",
        "core/seals.py", 'text = f"{job_id}/{attempt}/{token}"', 'text = f"{attempt}/{token}"',
        "TestRecovery::test_a_high_number_without_its_seal_proves_nothing",
    ),
    contract(
        "a ledger without an orchestrator suspects nobody",
        f"{VERBS}/recovering.py", "key is not None and is_seal(seal, key", 'is_seal(seal, (key or {"v": ""})',
        "TestRecovery::test_a_ledger_without_an_orchestrator_seals_nothing_and_suspects_nobody",
    ),
    orchestrator(
        "who says that it is an older copy gets a new generation",
        "generations", "if recover or not history.owner", "if problem or not history.owner",
        f"{GENERATIONS}::test_who_says_recover_gets_a_new_generation_also_where_nothing_shows_that_it_is_an_older_copy",
    ),
    orchestrator(
        "a generation without seals is followed by one with them",
        "generations", " or not history.sealed", "",
        f"{GENERATIONS}::test_a_generation_that_an_older_version_took_is_followed_by_one_with_seals",
    ),
    contract(
        "a result names objects of its own attempt",
        f"{VERBS}/ending.py", "if not output.key.startswith(own):", "if False:",
        "TestSettle::test_a_result_names_objects_of_its_own_attempt_alone",
    ),
    Fence(
        "a lease of no possible length is not read",
        "core/lease.py", "Meta(ge=1, le=LEASE_S_MAX * 1000)", "Meta()",
        ("tests/core/test_messages.py::test_a_lease_of_a_length_that_nobody_could_mean_is_not_read",),
    ),
    Fence(
        "a seal is no part of a lease's identity",
        "core/messages.py", "astuple(self)[:3] == astuple(other)[:3]", "astuple(self) == astuple(other)",
        ("tests/core/test_messages.py::test_a_seal_is_no_part_of_a_lease_s_identity",),
    ),
    core("a copy that has counted less is older", "generations", "known.high > mark", "False", TOLD),
    core("a higher generation has taken over", "generations", "known.newest > history.generation and", "False and",
         TOLD),
    core("a backup is a copy", "generations", "history.copied_at_ms is not None and known.newest", "False", TOLD),
    core("a store that does not know us is another", "generations", "history.owner and taken is None", "False", TOLD),
    core("a generation is one copy's", "generations", "taken.owner != history.owner", "False", TOLD),
    core("a ledger that knows that it is behind is", "generations", "    if history.rolled_back:", "    if False:",
         TOLD),
    core("a first start that was killed is no rival", "generations",
         " and (history.owner or known.high is not None)", "", RUNS),
    orchestrator(
        "the mark is made before an answer is said",
        "closer", "        await self._generations.reach(", "        (",
        f"{GENERATIONS}::test_before_an_answer_is_said_the_mark_is_past_it",
    ),
    orchestrator(
        "the manifest that stands is adopted, not ours",
        "closer", "return read_manifest(key, there)", "return manifest",
        f"{RECOVERIES}::test_a_job_that_ended_differently_since_the_restore_gets_the_answer_that_was_said_first",
    ),
    orchestrator(
        "a copy is refused",
        "generations", "if problem and not recover:", "if False:",
        f"{GENERATIONS}::test_a_backup_is_known_as_one_although_nothing_was_said_since",
    ),
    orchestrator(
        "of two copies one has a generation",
        "generations", "            if there == taken:\n", "            if True:\n",
        f"{GENERATIONS}::test_a_generation_that_somebody_takes_meanwhile_is_not_ours",
    ),
    orchestrator(
        "who has been replaced ends",
        "generations", "        if self.replaced:\n            self._replaced.set()\n", "",
        f"{RECOVERIES}::test_the_copy_that_was_left_behind_ends_and_what_it_still_says_is_no_second_answer",
    ),
    Fence(
        "who has met a higher generation believes no lower one",
        "ledger/remote/ledger.py", "if generation < self._generation:", "if False:",
        ("tests/web/test_generations.py::test_who_has_met_a_higher_generation_does_not_believe_a_lower_one",),
    ),
    orchestrator(
        "a number that was heard is no proof",
        "generations", "                self._newest = (await asyncio.to_thread(self._known, history.uuid)).newest\n",
        "                self._newest = 7\n",
        "tests/web/test_generations.py::test_a_number_that_nobody_took_ends_nothing",
    ),
    orchestrator(
        "a number that is heard is looked for once for all",
        "generations", "if self._last.number <= came:", "if True:",
        f"{GENERATIONS}::test_however_many_say_a_number_the_store_is_looked_at_for_all",
    ),
    orchestrator(
        "a number that is heard is not looked for all the time",
        "generations", "                    await self._clock.sleep(wait_ms / 1000)\n", "                    pass\n",
        f"{GENERATIONS}::test_whoever_says_numbers_again_and_again_has_to_wait",
    ),
    Fence(
        "a strict ledger has no workers of its own",
        "wiring/ground.py", "if (await chronicle_of(ledger).history()).strict:", "if False:",
        ("tests/worker/test_ground.py"
         "::test_a_ledger_that_says_no_answer_by_itself_has_no_workers_without_its_orchestrator",),
    ),
    orchestrator(
        "what cannot be written holds up no answer behind it",
        "closer", "self._after = closing.last", "self._after = 0",
        f"{RECOVERIES}::test_answers_that_cannot_be_written_hold_up_none_behind_them",
    ),
    core("a manifest stands in a namespace", "manifests", "is_name(namespace) and ", "",
         "test_another_object_is_nobodys_manifest[_public/results/index.json]"),
    core("a manifest is believed under the key of its job", "manifests", "if key == manifest_key(", "if manifest_key(",
         "test_what_is_written_down_is_believed_under_the_key_of_its_job_alone"),
    Fence(
        "of finished jobs with one key the newest has it after a recovery",
        f"{VERBS}/recovering.py", 'job_id=job["job_id"], key_open=1', 'job_id=job["job_id"], key_open=0',
        (f"{RECOVERIES}::test_of_finished_jobs_with_one_key_the_newest_has_it_after_a_recovery[True-False]",),
    ),
    Fence(
        "a recovery gives no key to an older job",
        f"{VERBS}/recovering.py", 'holder["ended_at_ms"] >= job["ended_at_ms"]', "False",
        (f"{RECOVERIES}::test_of_finished_jobs_with_one_key_the_newest_has_it_after_a_recovery[False-False]",),
    ),
    contract(
        "a recovery takes no key from an open job",
        f"{VERBS}/recovering.py", 'holder["ended_at_ms"] is None or ', "",
        "TestRecovery::test_the_key_of_a_job_that_is_open_here_stays_with_it",
    ),
    statement("give_key", " AND ended_at_ms IS NOT NULL", "",
              "TestOtherFences::test_the_key_of_an_open_job_is_not_taken_from_it"),
    Fence(
        "a recovery does not bring back what was forgotten",
        f"{VERBS}/closing.py", "is_forgotten(tx, result) or ", "",
        ("tests/orchestrator/test_forgetting.py::test_a_recovery_does_not_bring_back_what_was_forgotten",),
    ),
    orchestrator(
        "the manifest of a job goes with its id",
        "retention", "            await asyncio.to_thread(self._delete, stale.manifests)\n", "",
        "tests/orchestrator/test_forgetting.py"
        "::test_a_request_id_that_is_free_again_gets_an_answer_of_its_own",
    ),
    orchestrator(
        "an id is known until its manifest has gone",
        "retention", "structs.replace(stale, ids=())", "stale",
        "tests/orchestrator/test_forgetting.py::test_an_id_is_known_until_its_manifest_has_gone",
    ),
    orchestrator(
        "a recovery adopts what was said",
        "recovery", "    if history.recovering:", "    if False:",
        f"{RECOVERIES}::test_a_copy_from_before_the_last_fifty_settles_is_refused_and_recovered_without_a_second_answer"
        "[backup.db]",
    ),
]  # fmt: skip
