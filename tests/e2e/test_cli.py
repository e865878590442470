"""The command line as a person and a script meet it. Most commands run in this process: they start faster."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from planrun.cli.app import VERBS, run
from planrun.cli.exits import Exit

JOBS = """
import time
from planrun.jobs import JobContext, Permanent, job

@job("preview")
def preview(j: JobContext):
    for step in range(j.params.get("steps", 1)):
        j.progress(step / 100, f"step {step}")
        print("step", step, flush=True)
        time.sleep(0.05)
    if j.params.get("bad"):
        raise Permanent("no such filter: foo", code="bad-filter")
    out = j.scratch / "out.mp4"
    out.write_bytes(b"film")
    return {"preview": out, "frames": 9}

@job("gpu", needs=["a-card-that-nobody-has"])
def gpu(j: JobContext):
    pass
"""

Planrun = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "film_jobs.py").write_text(JOBS)
    monkeypatch.setenv("PLANRUN_URL", f"sqlite:///{tmp_path}/ledger.db")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def planrun(folder: Path, capfd: pytest.CaptureFixture[str]) -> Planrun:
    def call(*tokens: str) -> tuple[int, str, str]:
        capfd.readouterr()
        status = run(tokens)
        out, err = capfd.readouterr()
        return status, out, err

    return call


@contextmanager
def started(*tokens: str) -> Iterator[subprocess.Popen[str]]:
    """A command in a process of its own, ended for certain."""
    command = [sys.executable, "-m", "planrun.cli", *tokens]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=30)


def eventually(ask: Callable[[], Any], *, within_s: float = 20) -> Any:
    """The first answer that is true."""
    until = time.monotonic() + within_s
    while not (answer := ask()):
        assert time.monotonic() < until, "it never happened"
        time.sleep(0.05)
    return answer


def strict_json(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_the_help_names_every_verb_with_a_sentence_and_the_exit_codes(planrun: Planrun) -> None:
    status, out, _ = planrun("--help")

    assert status == Exit.FINISHED
    for verb in VERBS:
        assert re.search(rf"│ {verb} +[A-Z]", out), verb
    for code in set(Exit) - {Exit.INTERRUPTED, Exit.READER_GONE}:  # as every program
        assert re.search(rf"\b{int(code)}\b", out)


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_every_verb_has_an_example(planrun: Planrun, verb: str) -> None:
    status, out, _ = planrun(verb, "--help")

    assert status == Exit.FINISHED
    assert f"For example:\n\n  planrun {verb}" in out


@pytest.mark.parametrize(
    "tokens",
    [
        ["nonsense"],
        ["submit"],
        ["submit", "two words"],
        ["submit", "preview", "no-equals-sign"],
        ["submit", "preview", "x=1", "x=2"],
        ["submit", "preview", "--input", "upload=/no/such/file"],
        ["submit", "preview", "--priority", "high"],
        ["submit", "preview", "--notify", "mail:me"],
        ["submit", "preview", "--nonsense"],
        ["wait"],
        ["cancel"],
        ["worker"],
        ["worker", "film_jobs", "--slots", "0"],
        ["worker", "film_jobs", "--lease-s", "nan"],
        ["worker", "film_jobs", "--lease-s", "inf"],
        ["worker", "film_jobs", "--scratch", "/proc/nowhere"],
        ["worker", "film_jobs.py"],
        ["submit", "preview", "--wait", "--timeout-s", "nan"],
        ["list", "--url", "mysql://there"],
    ],
)
def test_a_wrong_command_line_is_two_lines_at_most_and_exit_2(planrun: Planrun, tokens: list[str]) -> None:
    status, out, err = planrun(*tokens)

    assert (status, out) == (Exit.USAGE, "")
    assert err.startswith("planrun: ")
    assert len(err.splitlines()) <= 2


def test_looking_at_a_ledger_that_is_not_there_makes_none(planrun: Planrun, folder: Path) -> None:
    status, _, err = planrun("list")

    assert status == Exit.UNREACHABLE
    assert "--url" in err
    assert not list(folder.glob("ledger.db*"))


def test_a_file_that_is_no_ledger_is_refused_and_left_alone(planrun: Planrun, folder: Path) -> None:
    (folder / "ledger.db").write_text("my diary" * 1000)

    assert planrun("submit", "preview")[0] == Exit.UNREACHABLE
    assert (folder / "ledger.db").read_text() == "my diary" * 1000


def test_a_folder_is_no_ledger_and_the_error_names_a_file_in_it(planrun: Planrun, folder: Path) -> None:
    status, _, err = planrun("submit", "preview", "--url", str(folder))

    assert (status, len(err.splitlines())) == (Exit.UNREACHABLE, 1)
    assert f"such as {folder}/planrun.db" in err


@pytest.mark.parametrize(
    ("verb", "beside"),
    [("submit", "turn"), ("submit", "wake"), ("worker", "turn"), ("worker", "workers"), ("worker", "scratch")],
)
def test_what_cannot_be_opened_beside_the_ledger_is_one_line(
    planrun: Planrun, folder: Path, verb: str, beside: str
) -> None:
    in_the_way = folder / f"ledger.db.{beside}"
    if beside in ("turn", "wake"):
        in_the_way.mkdir()
    else:
        in_the_way.write_text("a file")
    status, _, err = planrun(verb, "film_jobs")

    assert (status, len(err.splitlines())) == (Exit.UNREACHABLE, 1)
    assert in_the_way.name in err


def test_show_says_what_a_job_waits_for(planrun: Planrun) -> None:
    planrun("submit", "preview", "--request-id", "r1")
    planrun("submit", "preview", "--request-id", "r2", "--delay", "60")

    assert "planrun worker MODULE" in planrun("show", "r1")[1]
    assert "delayed by whoever submitted it" in planrun("show", "r2")[1]
    with started("worker", "film_jobs", "--name", "ann"):
        planrun("submit", "preview", "steps=600", "--request-id", "r3")
        eventually(lambda: "running on" in planrun("show", "r3")[1])
        planrun("submit", "preview", "--request-id", "r4")
        assert "1 of 1 are taken on ann" in planrun("show", "r4")[1]
    planrun("submit", "preview", "--request-id", "r5")
    assert "planrun worker MODULE" in planrun("show", "r5")[1]


def test_a_worker_says_at_its_start_what_it_takes_and_what_it_lacks(planrun: Planrun) -> None:
    with started("worker", "film_jobs", "--name", "ann") as worker:
        assert worker.stderr is not None
        takes, lacks = worker.stderr.readline(), worker.stderr.readline()

    assert "worker ann takes preview v1 from" in takes
    assert "kind gpu v1 needs a-card-that-nobody-has: install it here" in lacks


def test_a_job_runs_without_a_log_where_none_can_be_written(planrun: Planrun, folder: Path) -> None:
    (folder / "ledger.db.logs").write_text("in the way")
    with started("worker", "film_jobs"):
        assert planrun("submit", "preview", "--wait", "--timeout-s", "30")[0] == Exit.FINISHED


def test_what_a_failed_job_printed_begins_in_its_own_code(planrun: Planrun) -> None:
    with started("worker", "film_jobs"):
        _, out, _ = planrun("submit", "preview", "bad=true", "--wait", "--timeout-s", "30")

    assert "film_jobs.py" in out
    assert "runner.py" not in out


def test_params_are_json_where_they_can_be_and_text_elsewhere(planrun: Planrun) -> None:
    planrun(
        "submit", "preview", "n=7", "f=1.50", "t=A b=c", "l=[1,2]", "none=null", "nan=NaN", "e=", "--request-id", "r"
    )
    status, out, _ = planrun("show", "r", "--json")

    assert status == Exit.FINISHED
    assert strict_json(out)["params"] == {
        "n": 7,
        "f": 1.5,
        "t": "A b=c",
        "l": [1, 2],
        "none": None,
        "nan": "NaN",
        "e": "",
    }


def test_c59_submitting_again_says_that_no_second_job_was_made(planrun: Planrun) -> None:
    _, first, _ = planrun("submit", "preview", "--key", "k")
    status, second, err = planrun("submit", "preview", "--key", "k")
    conflict, _, why = planrun("submit", "preview", "x=1", "--key", "k")

    assert (status, second) == (Exit.FINISHED, first)
    assert "joined" in err
    assert (conflict, first.strip() in why) == (Exit.USAGE, True)


def test_c61_each_end_has_its_own_exit_code(planrun: Planrun) -> None:
    planrun("submit", "preview", "--request-id", "r1")
    planrun("submit", "preview", "--request-id", "r2", "--deadline", "0.1")

    assert planrun("wait", "r1", "--timeout-s", "0.1")[0] == Exit.RUNNING
    assert planrun("result", "r1")[0] == Exit.RUNNING
    assert planrun("wait", "nowhere")[0] == Exit.UNKNOWN
    assert planrun("cancel", "r1", "--why", "wrong file")[0] == Exit.FINISHED
    assert planrun("wait", "r1")[0] == Exit.CANCELED
    assert planrun("wait", "r2", "--timeout-s", "30")[0] == Exit.FAILED
    assert planrun("wait", "r2", "r1")[0] == Exit.FAILED
    assert planrun("wait", "r1", "nowhere")[0] == Exit.CANCELED


def test_every_listing_is_one_strict_json_document(planrun: Planrun) -> None:
    planrun("submit", "preview", "--request-id", "r1", "name=Grüße 🎬")
    planrun("cancel", "r1")
    for tokens in (
        ["show", "r1"],
        ["list"],
        ["events", "r1"],
        ["logs", "r1"],
        ["result", "r1"],
        ["wait", "r1"],
        ["wait", "r1", "nowhere"],
        ["cancel", "r1"],
        ["cancel", "r1", "nowhere"],
        ["check"],
        ["submit", "preview"],
    ):
        _, out, _ = planrun(*tokens, "--json")
        strict_json(out)


def test_a_page_of_the_list_names_the_next(planrun: Planrun) -> None:
    for _ in range(3):
        planrun("submit", "preview")
    _, first, hint = planrun("list", "--limit", "2")
    before = hint.split("--before ")[1].strip()
    _, second, end = planrun("list", "--limit", "2", "--before", before)

    assert (len(first.splitlines()), len(second.splitlines()), end) == (3, 2, "")
    assert planrun("list", "--kind", "other")[1].splitlines()[1:] == []


def test_the_output_of_a_pipe_has_no_color_and_cuts_no_id(planrun: Planrun) -> None:
    _, job_id, _ = planrun("submit", "preview", "--key", "k" * 300)
    _, out, _ = planrun("list")

    assert "\x1b" not in out
    assert out.splitlines()[1].startswith(job_id.strip())
    assert "k" * 300 in out


def test_ctrl_c_ends_the_waiting_and_not_the_job(planrun: Planrun) -> None:
    planrun("submit", "preview", "--request-id", "r1")
    for jobs in (["r1"], ["r1", "r1"]):
        with started("wait", *jobs, "--timeout-s", "60") as process:
            assert process.stderr is not None
            assert "waiting for" in process.stderr.readline()
            process.send_signal(signal.SIGINT)

            assert process.wait(timeout=30) == Exit.RUNNING
            assert "goes on" in process.stderr.read()
    assert strict_json(planrun("show", "r1", "--json")[1])["state"] == "queued"


def test_check_finds_nothing_wrong_in_a_fresh_place_and_names_what_a_module_lacks(planrun: Planrun) -> None:
    fresh, words, _ = planrun("check")
    planrun("submit", "preview")
    lacking, _, _ = planrun("check", "film_jobs")
    _, out, _ = planrun("check", "film_jobs", "--json")
    found = strict_json(out)
    given, _, _ = planrun("check", "film_jobs", "--capability", "a-card-that-nobody-has")

    assert (fresh, lacking, given) == (Exit.FINISHED, Exit.FAILED, Exit.FINISHED)
    assert "none yet" in words
    assert "a-card-that-nobody-has" in found["problems"][0]
    assert (found["ok"], found["isolation"] in ("full", "subreaper", "group")) == (False, True)
    assert found["jobs"]["queued"] == 1


def test_check_reports_a_module_that_is_broken(planrun: Planrun, folder: Path) -> None:
    (folder / "broken_jobs.py").write_text("def (:\n")
    status, out, err = planrun("check", "broken_jobs")

    assert (status, "Traceback" in out + err) == (Exit.FAILED, False)
    assert "broken_jobs" in out


def test_a_job_runs_from_submit_to_file_under_up_and_a_killed_worker_comes_back(planrun: Planrun) -> None:
    with started("up", "film_jobs", "--lease-s", "2", "--no-http") as up:
        _, out, _ = planrun("submit", "preview", "--wait", "--json", "--request-id", "r1", "--timeout-s", "60")
        answer = strict_json(out)
        failed, words, _ = planrun("submit", "preview", "bad=true", "--wait", "--timeout-s", "60")
        impossible, _, _ = planrun("submit", "gpu")
        _, log, _ = planrun("logs", "r1")

        assert Path(answer["outputs"]["preview"]["path"]).read_bytes() == b"film"
        assert (answer["value"], log) == ({"frames": 9}, "step 0\n")
        assert (failed, "no such filter: foo [bad-filter]" in words) == (Exit.FAILED, True)
        assert impossible == Exit.FAILED

        planrun("submit", "preview", "steps=60", "--request-id", "r2")
        eventually(lambda: "running on" in planrun("show", "r2")[1])
        [worker] = strict_json(planrun("check", "--json")[1])["workers"]
        os.kill(worker["pid"], signal.SIGKILL)
        eventually(lambda: [w for w in strict_json(planrun("check", "--json")[1])["workers"] if w["state"] == "lost"])

        assert planrun("wait", "r2", "--timeout-s", "60")[0] == Exit.FINISHED
        shown = strict_json(planrun("show", "r2", "--json")[1])
        assert (shown["attempt"], shown["losses"], shown["failures"]) == (2, 1, 0)
        up.send_signal(signal.SIGTERM)
        assert up.wait(timeout=30) == Exit.FINISHED
        workers = strict_json(planrun("check", "--json")[1])["workers"]
        assert sorted(worker["state"] for worker in workers) == ["gone", "lost"]


def test_cancel_ends_a_running_job_and_show_says_so(planrun: Planrun) -> None:
    with started("worker", "film_jobs"):
        planrun("submit", "preview", "steps=600", "--request-id", "r1")
        eventually(lambda: "running on" in planrun("show", "r1")[1])
        planrun("cancel", "r1", "--why", "wrong file", "--who", "ann")

        assert re.search(r"state +canceled", planrun("show", "r1")[1])
        assert "wrong file" in planrun("events", "r1")[1]
        eventually(lambda: re.search(r"state +canceled$", planrun("show", "r1")[1], re.MULTILINE))
