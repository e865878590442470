"""What makes short jobs quick costs no guarantee: one commit for two steps, the calling thread, a used folder."""

from __future__ import annotations

from .fences import Fence
from .rules import contract

CUT = (
    "tests/ledger/test_calling_thread.py"
    "::test_an_interrupt_at_any_line_leaves_the_ledger_free_and_nobody_without_an_answer"
)
COUNTS = "tests/ledger/test_counting.py::test_the_sums_are_those_of_a_look_at_each_job_whatever_happened[0]"
COUNTING = "ledger/migrations/sqlite/0009_lean_indexes.sql"
SHORTCUTS = [
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
        "if refused and (again := _granted_before(tx, request)) is not None:",
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
        "            self._turnstile.pass_on()\n            self._writing.release()",
        "            self._writing.release()",
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
        "",
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
        "nothing is emptied through a link",
        "worker/folder.py",
        "stat.S_ISDIR(mode) and mode & stat.S_IRWXU == stat.S_IRWXU",
        "True",
        ("tests/worker/test_attempt_folder.py::test_nothing_is_emptied_through_a_link",),
    ),
]
