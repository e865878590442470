"""Every verb that ends by itself speaks JSON: one strict document on stdout, and nothing else there."""

from __future__ import annotations

from pathlib import Path

import pytest

from planrun.cli.app import VERBS
from planrun.cli.exits import Exit
from tests.e2e.test_cli import Planrun, folder, planrun, started, strict_json

__all__ = ["folder", "planrun"]

FOR_EVER = {"orchestrator", "worker", "up"}  # they print nothing to read: their log is stderr

# verb → how it is called here, on two jobs that ended (r1, r2) and one that waits (r3)
CALLS = {
    "submit": [["submit", "preview"], ["submit", "preview", "--deadline", "0.01", "--wait"]],
    "wait": [["wait", "r1"], ["wait", "r1", "nowhere"]],
    "show": [["show", "r1"], ["show", "r3"]],
    "why": [["why", "r1"]],
    "list": [["list"], ["list", "--kind", "nothing"]],
    "events": [["events", "r1"]],
    "logs": [["logs", "r1"]],
    "result": [["result", "r1"]],
    "cancel": [["cancel", "r1"], ["cancel", "r1", "nowhere"]],
    "retry": [["retry", "r1"], ["retry", "r2", "nowhere"]],
    "pause": [["pause", "other"]],
    "resume": [["resume", "other"]],
    "pauses": [["pauses"]],
    "rate": [["rate"]],
    "drains": [["drains"]],
    "top": [["top"], ["top", "--once"]],
    "workers": [["workers"]],
    "kinds": [["kinds"]],
    "new": [["new", "made-up"]],
    "token": [["token"], ["token", "create", "--scope", "submit"], ["token", "list"]],
    "migrate": [["migrate"], ["migrate", "--dry-run"]],
    "backup": [["backup", "copy.db"]],
    "gc": [["gc"]],
    "sim": [["sim", "--seed", "1", "--jobs", "2"]],
    "check": [["check"], ["check", "film_jobs"]],
    "lab": [["lab"]],
    "completion": [["completion", "bash"]],
}
LONG = {"verify"}  # test_verify.py reads what it prints
WITH_A_WORKER = {"drain": [["drain", "ann", "--force"], ["drain", "--undo"]]}


@pytest.fixture
def three(planrun: Planrun, folder: Path) -> Planrun:
    for request_id in ("r1", "r2", "r3"):
        planrun("submit", "preview", "--request-id", request_id, "name=Grüße 🎬")
    planrun("cancel", "r1", "r2")
    return planrun


def test_no_verb_is_forgotten() -> None:
    assert set(VERBS) == FOR_EVER | LONG | set(CALLS) | set(WITH_A_WORKER)


@pytest.mark.parametrize("verb", CALLS)
def test_stdout_is_one_strict_document(three: Planrun, verb: str) -> None:
    for tokens in CALLS[verb]:
        status, out, _ = three(*tokens, "--json")

        strict_json(out)
        assert status in set(Exit) - {Exit.USAGE, Exit.UNREACHABLE, Exit.FATAL, Exit.INTERRUPTED}


@pytest.mark.parametrize("verb", [*CALLS, *LONG, *WITH_A_WORKER])
def test_an_error_leaves_stdout_empty(planrun: Planrun, verb: str) -> None:
    status, out, err = planrun(verb, "--no-such-option", "--json")

    assert (status, out) == (Exit.USAGE, "")
    assert err.startswith("planrun: ")


def test_following_prints_one_document_a_line(three: Planrun) -> None:
    _, history, _ = three("events", "r1", "--follow", "--json")
    _, log, _ = three("logs", "r1", "-f", "--json")

    assert strict_json(history.splitlines()[0])["what"] == "submitted"
    assert log == ""


def test_the_document_of_a_job_says_what_is_left_and_its_shape_is_kept(three: Planrun) -> None:
    """Scripts rely on these names: one may be added, none may go."""
    shown = strict_json(three("show", "r3", "--json")[1])
    [listed] = strict_json(three("list", "--state", "queued", "--json")[1])["jobs"]

    assert {"job_id", "state", "reason", "fraction", "message", "left_ms", "worker", "created_at_ms"} <= set(listed)
    assert set(shown) == set(listed) | {"attempts", "answer"}
    assert set(strict_json(three("top", "--json")[1])) == {"jobs", "waiting", "ended_last_minute", "running", "workers"}


def test_drain_speaks_json_too(three: Planrun) -> None:
    with started("worker", "film_jobs", "--name", "ann") as worker:
        assert worker.stderr is not None
        worker.stderr.readline()
        assert strict_json(three("drain", "ann", "--force", "--json")[1]) == {"drained": ["ann"]}
        assert worker.wait(timeout=30) == Exit.FINISHED
