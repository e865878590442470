"""What `planrun verify` must see, and whom it must leave alone."""

from __future__ import annotations

from .fences import Fence

OBSERVER = "tests/verify/test_observer.py"
FOUND = f"{OBSERVER}::test_what_is_planted_is_found"
CREW = "tests/verify/test_crew.py"
RUN = "tests/e2e/test_verify.py"
VERIFY = [
    Fence(
        "a job without an end is lost",
        "verify/observer.py",
        "if len(story.told) < max(1, story.asked):",
        "if False:",
        (f"{FOUND}[it never ended]",),
    ),
    Fence(
        "a message that never came is lost",
        "verify/observer.py",
        "if story.told and story.owes_message and not story.copies:",
        "if False:",
        (f"{FOUND}[its message never came]",),
    ),
    Fence(
        "a second answer is doubled",
        "verify/observer.py",
        "if len(set(map(_canonical, story.told))) > 1:",
        "if False:",
        (f"{FOUND}[a second answer for another who asked]",),
    ),
    Fence(
        "one of several who wait and was never told is lost",
        "verify/observer.py",
        "if len(story.told) < max(1, story.asked):",
        "if not story.told:",
        (f"{FOUND}[one of those who wait was never told]",),
    ),
    Fence(
        "a job ends as it was asked to, to the letter",
        "verify/observer.py",
        "if end not in asked and end != GAVE_UP:",
        "if False:",
        (f"{OBSERVER}::test_a_job_that_ends_otherwise_than_it_was_asked_to_is_found",),
    ),
    Fence(
        "a job is given up only where its attempts explain it",
        "verify/observer.py",
        "end_of(answer) == GAVE_UP and not gives_up(story.outcomes)",
        "False",
        (f"{OBSERVER}::test_a_job_is_given_up_only_where_its_attempts_explain_it",),
    ),
    Fence(
        "nobody reads late files",
        "verify/observer.py",
        "if read := sorted(named & {key for late in _late(story) for key in late}):",
        "if read := []:",
        (f"{FOUND}[a message that names a late file]",),
    ),
    Fence(
        "nothing gets between the files of a winner",
        "verify/observer.py",
        "if story.told and (beside := sorted(won - named)):",
        "if beside := []:",
        (f"{FOUND}[a late file beside those of the winner]",),
    ),
    Fence(
        "whoever waits for messages does not stop at the last one that is owed",
        "verify/torture.py",
        "until_ms = clock.boot_ms() + AFTER_LAST_S * 1000",
        "until_ms = clock.boot_ms()",
        ("tests/verify/test_run.py::test_what_comes_after_the_last_message_that_was_owed_is_still_heard",),
    ),
    Fence(
        "a fault that finds nobody gives way to the next one",
        "verify/run.py",
        "until_s = min(self._now_s() + strike.patience_s, self._plan.storm_s)",
        "until_s = self._plan.storm_s",
        ("tests/verify/test_run.py::test_a_fault_that_finds_nobody_does_not_keep_the_others_from_happening",),
    ),
    Fence(
        "where nothing was tested nothing held",
        "verify/report.py",
        "return not self.wrongs and not self.untested",
        "return not self.wrongs",
        ("tests/verify/test_report.py::test_a_run_in_which_nothing_was_tested_did_not_hold",),
    ),
    Fence(
        "whoever stored too quickly is let go",
        "verify/crew.py",
        "        if await self._still_holds(target):\n            return True",
        "        if True:\n            return True",
        (f"{CREW}::test_whoever_was_too_quick_is_let_go_and_does_not_count",),
    ),
    Fence(
        "a second message is doubled",
        "verify/observer.py",
        "if len({copy.body for copy in story.copies}) > 1:",
        "if False:",
        (f"{FOUND}[a second message for the same subscriber]",),
    ),
    Fence(
        "other bytes are overwritten ones",
        "verify/observer.py",
        "if {digest for digest in story.read.get(key, []) if digest not in (None, sha256)}:",
        "if False:",
        (f"{FOUND}[a byte that was overwritten]",),
    ),
    Fence(
        "the bytes of another attempt are overwritten ones",
        "verify/observer.py",
        "if story.heads.get(key, winner.head) != winner.head:",
        "if False:",
        (f"{OBSERVER}::test_bytes_of_another_attempt_are_found_although_their_digest_is_as_settled",),
    ),
    Fence(
        "a namespace with open jobs is refused",
        "verify/torture.py",
        "if any(number for state, number in counts.items() if state not in ENDED):",
        "if False:",
        (f"{RUN}::test_a_namespace_in_use_is_refused_and_so_is_a_span_that_is_none",),
    ),
    Fence(
        "nobody is frozen with the turn to write of others",
        "verify/crew.py",
        "if not self._holds_others_up():",
        "if True:",
        (f"{CREW}::test_nobody_is_left_frozen_with_the_turn_to_write_of_others",),
    ),
    Fence(
        "the last worker that is well is left alone",
        "verify/crew.py",
        "if len(fit) < 2 and strike.blow is not Blow.JOB:",
        "if not fit:",
        (f"{CREW}::test_the_last_one_that_is_well_is_left_alone",),
    ),
    Fence(
        "a worker that only sweeps announces nothing",
        "wiring/worker.py",
        "if options.only_sweeps:",
        "if False:",
        (f"{RUN}::test_a_short_run_holds_and_leaves_the_jobs_of_others_alone",),
    ),
    Fence(
        "a worker that only sweeps fails no jobs of others",
        "orchestrator/sweeper.py",
        "        if self._ends_unsupported:",
        "        if True:",
        ("tests/orchestrator/test_sweeper.py::test_a_sweeper_that_may_not_judge_fails_no_jobs_of_others",),
    ),
    Fence(
        "workers of a run end with it",
        "verify/worker.py",
        "    _end_with(int(os.environ[WHOSE]))",
        "    pass",
        (f"{RUN}::test_killed_it_leaves_no_worker",),
    ),
]
