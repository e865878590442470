"""What a script learns from the exit code, verb by verb. The numbers are public."""

from __future__ import annotations

from pathlib import Path

import pytest

from planrun.cli.app import VERBS
from planrun.cli.exits import Exit, exit_of
from planrun.core.errors import (
    Conflict,
    Invalid,
    LedgerUnavailable,
    LedgerUnusable,
    PlanrunError,
    ResultGone,
    StorageError,
    UnknownJob,
    WaitTimeout,
)
from tests.e2e.test_cli import Planrun, folder, planrun

__all__ = ["folder", "planrun"]

WITH_A_JOB = ["wait", "show", "why", "events", "logs", "result", "cancel", "retry"]
MAKES_ITS_LEDGER = ["orchestrator", "submit", "worker", "up", "verify"]
NEEDS_NONE = ["new", "check", "completion", "lab", "sim"]
WITH_WORDS = {"backup": ["copy.db"]} | {verb: ["some-job"] for verb in WITH_A_JOB}


@pytest.mark.parametrize("verb", WITH_A_JOB)
def test_an_unknown_job_is_6_in_one_line_that_says_where_to_look(planrun: Planrun, verb: str) -> None:
    planrun("submit", "preview")
    status, out, err = planrun(verb, "nowhere")

    assert (status, out, len(err.splitlines())) == (Exit.UNKNOWN, "", 1)
    assert "planrun list" in err


@pytest.mark.parametrize("verb", sorted(set(VERBS) - set(MAKES_ITS_LEDGER) - set(NEEDS_NONE)))
def test_a_ledger_that_is_not_there_is_5_and_stays_away(planrun: Planrun, folder: Path, verb: str) -> None:
    status, out, err = planrun(verb, *WITH_WORDS.get(verb, []))

    assert (status, out, len(err.splitlines())) == (Exit.UNREACHABLE, "", 1)
    assert "--url" in err
    assert not list(folder.glob("ledger.db*"))


@pytest.mark.parametrize(
    "tokens",
    [
        ["list", "--state", "paused"],
        ["list", "--limit", "0"],
        ["list", "--before", "x"],
        ["list", "--limit", "2.5"],
        ["sim", "--seed", "1e3"],
        ["events", "r1", "--attempt", "x"],
        ["events", "r1", "--what", "granted", "--what", "grant"],
        ["logs", "r1", "--attempt", "9"],
        ["wait", "r1", "--timeout-s", "-1"],
        ["retry", "r1"],  # it has not ended
        ["retry"],
        ["cancel"],
        ["pause", "two words"],
        ["pauses", "--limit", "0"],
        ["drains", "--limit", "0"],
        ["drain", "nobody"],
        ["drain", "nobody", "--undo"],
        ["top", "--every-s", "nan"],
        ["gc", "--grace-s", "-1"],
        ["backup"],
        ["new", "two words"],
        ["completion", "tcsh"],
        ["submit", "preview", "--priority", str(10**30)],
        ["submit", "preview", "--deadline", "-1"],
        ["submit", "preview", "--delay", "nan"],
        ["submit", "preview", "--max-attempts", "0"],
        ["submit", "preview", "--namespace", "a/b"],
        ["submit", "preview", "--request-id", ""],
        ["submit", "preview", f"x={'y' * 5_000_000}"],
        ["sim", "--minutes", "inf"],
        ["pause", ""],
        ["pause", "--namespace", ""],
        ["resume", ""],
        ["drain", ""],
        ["worker", "film_jobs", "--lease-s", "1e300"],
        ["worker", "film_jobs", "--job-ttl-s", "1e18"],
        ["token", "create", "--scope", "submit", "--name", "q", "--expires", "99999999999999d"],
        ["sim", "--minutes", "1e308"],
    ],
)
def test_what_cannot_be_right_is_2_in_two_lines_at_most(planrun: Planrun, tokens: list[str]) -> None:
    planrun("submit", "preview", "--request-id", "r1")
    status, out, err = planrun(*tokens)

    assert (status, out) == (Exit.USAGE, "")
    assert err.startswith("planrun: ")
    assert (len(err.splitlines()) <= 2, "Traceback" in err) == (True, False)


def test_each_error_has_its_exit_code() -> None:
    errors: dict[PlanrunError, int] = {
        Invalid("x"): 2,
        Conflict("x", job_id="j"): 2,
        WaitTimeout("x"): 3,
        LedgerUnavailable("x"): 5,
        LedgerUnusable("x"): 5,
        StorageError("x"): 5,
        UnknownJob("x"): 6,
        ResultGone("x"): 7,
    }

    assert {error: int(exit_of(error)) for error in errors} == errors
