"""What makes short jobs quick costs no guarantee: one commit for two steps, the calling thread, a used folder."""

from __future__ import annotations

from .fences import Fence
from .rules import contract

CUT = (
    "tests/ledger/test_calling_thread.py"
    "::test_an_interrupt_at_any_line_leaves_the_ledger_free_and_nobody_without_an_answer"
)
COUNTS = "tests/ledger/test_counting.py::test_the_sums_are_those_of_a_look_at_each_job_whatever_happened[0]"
LATER = "tests/ledger/test_counting.py::test_a_job_that_is_handed_in_is_counted_later_and_then_once"
COUNTING = "ledger/migrations/sqlite/0009_lean_indexes.sql"
SHORTCUTS = [
    *(
        Fence(f"trigger {when}", COUNTING, f"{when} ", f"{instead} ", (test,))
        for when, instead, test in (
            ("AFTER INSERT ON job WHEN", "AFTER INSERT ON job WHEN 0 AND", LATER),
            ("WHEN NEW.ended_at_ms IS NOT NULL", "WHEN 0", COUNTS),
            ("AFTER DELETE ON job", "AFTER DELETE ON job WHEN 0", COUNTS),
        )
    ),
    Fence(
        "what a job prints before its guardian attends waits for that",
        "worker/launcher.py",
        "            self._poll.unregister(self._output)\n        self._drain()\n",
        "            pass\n        self._drain()\n",
        ("tests/jobs/test_job_process.py::test_what_a_job_prints_before_its_guardian_attends_is_in_its_log",),
    ),
    Fence(
        "a lock from outside does not hold the loop up",
        "ledger/sqlite/writer.py",
        "                    self._connection.set_busy_timeout(0)\n",
        "",
        ("tests/ledger/test_on_loop.py::test_a_lock_from_outside_does_not_hold_the_loop_up",),
    ),
    Fence(
        "another process's turn does not hold the loop up",
        "ledger/sqlite/turnstile.py",
        "_try_until(time.monotonic() + _SOON_S)",
        "_try_until(time.monotonic() + 3)",
        ("tests/ledger/test_on_loop.py::test_while_another_process_has_the_turn_the_loop_goes_on",),
    ),
    Fence(
        "a call whose caller is gone is not begun",
        "ledger/sqlite/answer.py",
        "            self.claim()\n",
        "",
        ("tests/ledger/test_answer.py::test_whoever_is_canceled_has_given_up",),
    ),
    Fence(
        "a look that turns out to be long does not hold the loop up",
        "ledger/sqlite/reader.py",
        "        self._quick.set_progress_handler(lambda: True, GLANCE_STEPS_MAX)  # true: break it off\n",
        "",
        ("tests/ledger/test_reader.py::test_a_glance_that_turns_out_to_be_long_is_taken_in_a_thread",),
    ),
    Fence(
        "to look through everything keeps no other look waiting",
        "ledger/sqlite/ledger.py",
        "self._read_apart(reading.violations)",
        "self._read(reading.violations)",
        ("tests/ledger/test_reader.py::test_what_people_ask_for_stands_in_the_way_of_no_other_look",),
    ),
    Fence(
        "a look that would wait does not hold the loop up",
        "ledger/sqlite/reader.py",
        "        self._quick.set_busy_timeout(0)\n",
        "",
        ("tests/ledger/test_reader.py::test_a_glance_waits_for_no_lock_itself",),
    ),
    Fence(
        "a job that ends before it is counted is not counted as ended twice",
        COUNTING,
        " AND NEW.id<=(SELECT v FROM meta WHERE k='counted_to') BEGIN\n  UPDATE tally",
        " BEGIN\n  UPDATE tally",
        (COUNTS,),
    ),
    Fence(
        "a job that goes before it is counted is missed nowhere",
        COUNTING,
        " AND OLD.id<=(SELECT v FROM meta WHERE k='counted_to');",
        ";",
        (COUNTS,),
    ),
    Fence(
        "an id that is given a second time is counted a second time",
        COUNTING,
        "   WHERE k='counted_to' AND v>(SELECT coalesce(max(id),0) FROM job);",
        "   WHERE false;",
        (COUNTS,),
    ),
    contract(
        "a grant that is asked for again is not a second one",
        "ledger/verbs/holding.py",
        "if (again := _granted_before(tx, request)) is not None:",
        "if False:",
        "TestGrant::test_asked_again_the_same_one_is_granted_though_an_earlier_one_is_free_by_now",
    ),
    Fence(
        "a signal handler does not end the batch that it interrupts",
        "ledger/sqlite/writer.py",
        "        if self._is_ours():  # a signal handler",
        "        if False:  # a signal handler",
        (
            "tests/ledger/test_calling_thread.py"
            "::test_a_call_in_the_middle_of_a_call_of_the_same_thread_leaves_that_one_whole",
        ),
    ),
    Fence(
        "an interrupt leaves no turn behind",
        "ledger/sqlite/writer.py",
        "            self._turnstile.pass_on()\n            self._connection",
        "            self._connection",
        (CUT,),
    ),
    Fence(
        "an interrupt leaves no transaction open",
        "ledger/sqlite/writer.py",
        "            if self._connection.in_transaction:\n                self._abandon()\n            self._turnstile",
        "            self._turnstile",
        (CUT,),
    ),
    Fence(
        "an interrupt leaves nobody's thread locked out",
        "ledger/sqlite/writer.py",
        "            self._leave()  # once more: the interrupt may have hit the first one\n",
        "            pass\n",
        (CUT,),
    ),
    Fence(
        "a job of another kind is not overtaken by one that could follow",
        "worker/taking.py",
        "(one.offer.kind, one.offer.version) == kind",
        "True",
        ("tests/worker/test_taking.py::test_a_more_urgent_job_of_another_kind_is_not_overtaken",),
    ),
    Fence(
        "what nobody asks for any more may be asked for",
        "worker/taking.py",
        "            self._wanted.discard(_key(asking.deliveries[0]))\n",
        "            pass\n",
        ("tests/worker/test_taking.py::test_an_offer_is_wanted_by_one_slot_until_its_question_is_answered",),
    ),
    Fence(
        "nothing is emptied through a link",
        "worker/folder.py",
        "stat.S_ISDIR(mode) and mode & stat.S_IRWXU == stat.S_IRWXU",
        "True",
        ("tests/worker/test_attempt_folder.py::test_nothing_is_emptied_through_a_link",),
    ),
]
