"""What a person watches: the bar and the lines of a wait, logs and events that go on, drain, top, completion."""

from __future__ import annotations

import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from planrun.cli.exits import Exit
from tests.e2e.test_cli import Planrun, eventually, folder, planrun, started, strict_json

__all__ = ["folder", "planrun"]


def state_of(planrun: Planrun, job: str) -> str:
    return str(strict_json(planrun("show", job, "--json")[1])["state"])


def on_a_terminal(*tokens: str, within_s: float = 60, stop_at: bytes = b"") -> str:
    """What a command shows on a terminal until it ends, or until Ctrl-C once it has shown something."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "planrun.cli", *tokens]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        shown = b""
        until = time.monotonic() + within_s
        while time.monotonic() < until:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            shown += part
            if stop_at and stop_at in shown:
                process.send_signal(signal.SIGINT)
                stop_at = b""
        os.close(ours)
        assert process.wait(timeout=30) == Exit.FINISHED
    return shown.decode(errors="replace")


def test_a_terminal_shows_a_bar_and_then_the_answer(planrun: Planrun) -> None:
    with started("worker", "film_jobs", "--name", "ann"):
        shown = on_a_terminal("submit", "preview", "steps=60", "--wait", "--timeout-s", "60")

    assert re.search(r"running on ann.*━.*\d+%.*step \d+", shown)
    assert "finished" in shown.rpartition("step")[2]


def test_without_a_terminal_there_is_a_line_per_change_and_no_bar(planrun: Planrun) -> None:
    with started("worker", "film_jobs", "--name", "ann"):
        status, _, err = planrun("submit", "preview", "steps=30", "--wait", "--timeout-s", "60")

    assert status == Exit.FINISHED
    assert "running on ann, attempt 1" in err
    assert (len(err.splitlines()) <= 5, "\x1b" in err, "\r" in err) == (True, False, False)


def test_logs_and_events_go_on_until_the_job_has_ended(planrun: Planrun) -> None:
    planrun("submit", "preview", "steps=30", "--request-id", "r1")
    with started("logs", "r1", "-f") as logs, started("events", "r1", "--follow") as events:
        with started("worker", "film_jobs"):
            assert logs.stdout is not None
            first = logs.stdout.readline()
            assert state_of(planrun, "r1") == "running"
            assert logs.wait(timeout=60) == events.wait(timeout=60) == Exit.FINISHED
        rest = logs.stdout.read()
        assert events.stdout is not None
        history = events.stdout.read()

    assert first + rest == "".join(f"step {step}\n" for step in range(30)) == planrun("logs", "r1")[1]
    assert [line.split()[1] for line in history.splitlines()] == [
        row["what"] for row in strict_json(planrun("events", "r1", "--json")[1])
    ]


def test_following_what_is_not_there_is_said_at_once(planrun: Planrun) -> None:
    planrun("submit", "preview", "--request-id", "r1")

    assert planrun("logs", "nowhere", "-f")[0] == planrun("events", "nowhere", "-f")[0] == Exit.UNKNOWN
    assert planrun("logs", "r1", "-f", "--attempt", "2")[0] == Exit.USAGE


def test_a_drained_worker_finishes_what_runs_and_ends_for_good_under_up(planrun: Planrun) -> None:
    with started("up", "film_jobs", "--name", "ann", "--no-http") as up:
        planrun("submit", "preview", "steps=40", "--request-id", "r1")
        eventually(lambda: state_of(planrun, "r1") == "running")
        planrun("submit", "preview", "--request-id", "r2")
        refused, _, why = planrun("drain", "ann")
        status, out, _ = planrun("drain", "ann", "--force", "--who", "bob", "--why", "new disk")

        assert (refused, "preview v1: 2 open jobs" in why, "--force" in why) == (Exit.USAGE, True, True)
        assert (status, out.startswith("worker ann is drained")) == (Exit.FINISHED, True)
        assert "takes no more work" in planrun("kinds")[2]
        assert up.wait(timeout=60) == Exit.FINISHED

    assert (state_of(planrun, "r1"), state_of(planrun, "r2")) == ("finished", "queued")
    assert strict_json(planrun("show", "r1", "--json")[1])["handbacks"] == 0
    [drain] = strict_json(planrun("drains", "--json")[1])
    assert (drain["worker"], drain["who"], drain["why"], drain["undone"]) == ("ann", "bob", "new disk", False)
    assert drain["ended_at_ms"] is not None
    assert "bob" in planrun("drains")[1]
    assert planrun("drain", "ann")[0] == planrun("drain", "--undo")[0] == Exit.USAGE


def test_the_last_worker_of_a_version_says_at_its_end_what_it_leaves(planrun: Planrun) -> None:
    planrun("submit", "preview", "--delay", "60")
    with started("worker", "film_jobs", "--name", "ann") as ann, started("worker", "film_jobs", "--name", "bob") as bob:
        eventually(lambda: len(strict_json(planrun("top", "--json")[1])["workers"]) == 2)
        said = []
        for worker in (ann, bob):
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(timeout=30) == Exit.FINISHED
            assert worker.stderr is not None
            said.append("preview v1: 1 open job, and" in worker.stderr.read())

    assert said == [False, True]


def test_a_drain_that_is_undone_in_time_changes_nothing(planrun: Planrun) -> None:
    with started("worker", "film_jobs", "--name", "ann"):
        planrun("submit", "preview", "steps=400", "--request-id", "r1")
        eventually(lambda: state_of(planrun, "r1") == "running")
        planrun("drain", "ann", "--force")
        _, out, _ = planrun("drain", "ann", "--undo", "--who", "bob")
        planrun("cancel", "r1")

        assert "takes jobs again" in out
        assert planrun("submit", "preview", "--wait", "--timeout-s", "60")[0] == Exit.FINISHED


def test_top_shows_what_runs_what_waits_and_who_works(planrun: Planrun) -> None:
    with started("worker", "film_jobs", "--name", "ann", "--namespace", "default", "--namespace", "ads"):
        planrun("submit", "preview", "steps=400", "--request-id", "r1")
        eventually(lambda: state_of(planrun, "r1") == "running")
        planrun("submit", "preview")
        planrun("submit", "preview", "--namespace", "ads")
        planrun("pause", "--namespace", "ads")
        status, out, _ = planrun("top", "--once")
        seen = strict_json(planrun("top", "--json")[1])
        planrun("cancel", "r1")

    assert (status, "running on ann" in out, "ann" in out) == (Exit.FINISHED, True, True)
    assert seen["waiting"] == {"paused": 1, "no-worker": 0, "in-line": 1}
    assert [row["kind"] for row in seen["running"]] == ["preview"]
    assert [row["name"] for row in seen["workers"]] == ["ann"]
    assert "1 canceled" in on_a_terminal("top", stop_at=b"1 canceled")
    assert planrun("top", "--every-s", "0")[0] == Exit.USAGE


# --- ids by their beginning ---


def test_every_verb_with_a_job_takes_the_beginning_of_its_id(planrun: Planrun) -> None:
    job_id = planrun("submit", "preview")[1].strip()
    for verb in ("show", "why", "events", "logs", "cancel", "wait", "result", "retry"):
        status, _, err = planrun(verb, job_id[:8])

        assert status == (Exit.CANCELED if verb in ("wait", "result") else Exit.FINISHED), (verb, err)
    assert planrun("show", job_id[:5])[0] == Exit.UNKNOWN


# --- completion ---

COMPLETE = """
source ./completion
COMP_WORDS=({words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_planrun
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def complete(folder: Path) -> object:
    """Ask a real bash what it would offer behind these words."""
    program = folder / "planrun"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m planrun.cli "$@"\n')
    program.chmod(0o755)
    (folder / "completion").write_text(subprocess.check_output([program, "completion", "bash"], text=True))

    def ask(*words: str) -> list[str]:
        quoted = " ".join(f"'{word}'" for word in (str(program), *words))
        script = COMPLETE.format(words=quoted)
        done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    return ask


@pytest.mark.needs("bash")
def test_bash_completes_verbs_options_jobs_kinds_and_states(planrun: Planrun, complete: object) -> None:
    assert callable(complete)
    job_id = planrun("submit", "preview", "--request-id", "r1")[1].strip()

    assert complete("dra") == ["drain", "drains"]
    assert "--force" in complete("drain", "--f")
    assert complete("wait", job_id[:3]) == [job_id]
    assert complete("pause", "pre") == ["preview"]
    assert complete("list", "--state", "fin") == ["finished"]
    assert complete("show", "zz") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_is_printed_and_can_be_parsed(planrun: Planrun, folder: Path, shell: str) -> None:
    status, script, _ = planrun("completion", shell)

    assert (status, "drain" in script) == (Exit.FINISHED, True)
    if shutil.which(shell):
        (folder / "script").write_text(script)
        assert subprocess.run([shell, "-n", "script"], check=False).returncode == 0
    assert planrun("completion", "tcsh")[0] == Exit.USAGE
