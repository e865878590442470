"""Rules of a ledger that is asked over HTTP, and of who may have its file."""

from __future__ import annotations

from .fences import Fence

REMOTE = "tests/ledger/test_remote.py"
LOCKS = "tests/worker/test_lockfile.py"


def afar(name: str, old: str, new: str, test: str, *, file: str = "ledger/remote/ledger.py") -> Fence:
    """A rule of the remote ledger."""
    return Fence(name, file, old, new, (f"{REMOTE}::{test}",))


AFAR = [
    afar(
        "what is cut off is given up before a slow answer is",
        "limits=limits, socket_options=SOCKET_OPTIONS)",
        "limits=limits)",
        "test_a_connection_that_is_cut_is_given_up_before_a_slow_answer_is",
    ),
    afar(
        "a cancel whose reply got lost is not asked for again",
        "(question.repeatable and silence.is_quick)",
        "silence.is_quick",
        "test_a_lost_reply_of_a_cancel_is_not_asked_for_again_behind_the_callers_back",
    ),
    afar(
        "a submit whose reply got lost is asked for again",
        "(question.repeatable and silence.is_quick)",
        "False",
        "test_a_lost_reply_is_asked_for_again_where_that_changes_nothing",
    ),
    afar(
        "a server of somebody else is not taken for an orchestrator",
        "if reply.headers.get(PROTOCOL_HEADER) is None:",
        "if False:",
        "test_a_server_that_is_none_of_planrun_is_unusable",
    ),
    afar(
        "boottimes of another machine are translated",
        "lease_until_ms=None if until_ms is None else until_ms + ahead_ms,",
        "lease_until_ms=until_ms,",
        "test_boottimes_come_out_as_those_of_the_readers_machine",
    ),
    afar(
        "whoever waits for a job outlives an orchestrator that is away",
        "if not self._place.is_remote:\n                    raise",
        "raise",
        "test_whoever_waits_outlives_an_orchestrator_that_is_away",
        file="client/waiting.py",
    ),
    Fence(
        "an orchestrator has its ledger alone",
        "lockfile.py",
        "(fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB",
        "fcntl.LOCK_SH | fcntl.LOCK_NB",
        (f"{LOCKS}::test_an_orchestrator_has_a_ledger_alone_and_workers_share_it",),
    ),
]
