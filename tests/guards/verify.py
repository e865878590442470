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
        "if not story.told:",
        "if False:",
        (f"{FOUND}[it never ended]",),
    ),
    Fence(
        "a message that never came is lost",
        "verify/observer.py",
        "elif story.owes_message and not story.copies:",
        "elif False:",
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
        "a second message is doubled",
        "verify/observer.py",
        "if len({copy.body for copy in story.copies}) > 1:",
        "if False:",
        (f"{FOUND}[a second message for the same subscriber]",),
    ),
    Fence(
        "other bytes are overwritten ones",
        "verify/observer.py",
        "        if others:",
        "        if False:",
        (f"{FOUND}[a byte that was overwritten]",),
    ),
    Fence(
        "the bytes of another attempt are overwritten ones",
        "verify/observer.py",
        "if story.heads.get(key, winner) != winner:",
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
        "(len(fit) < 2 and strike.blow is not Blow.JOB)",
        "not fit",
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
