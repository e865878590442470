"""What an operator does from the command line: retry, why, kinds, backup, gc, pause."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from planrun.cli.exits import Exit
from tests.e2e.test_cli import Planrun, eventually, folder, planrun, started, strict_json

__all__ = ["folder", "planrun"]


def test_retry_says_the_new_id_and_names_the_key_that_another_job_holds(planrun: Planrun) -> None:
    planrun("submit", "preview", "--key", "k", "--request-id", "r1")
    open_yet, _, why_not = planrun("retry", "r1")
    planrun("cancel", "r1")
    status, first, _ = planrun("retry", "r1", "--who", "ann", "--why", "again")
    twice, _, refusal = planrun("retry", "r1")
    planrun("cancel", first.strip())
    planrun("submit", "preview", "--key", "k", "x=1")
    _, second, hint = planrun("retry", "r1")

    assert (open_yet, "cancel it first" in why_not, planrun("retry", "nowhere")[0]) == (Exit.USAGE, True, Exit.UNKNOWN)
    assert (status, first != second, "key" in hint) == (Exit.FINISHED, True, True)
    assert (twice, first.strip() in refusal) == (Exit.USAGE, True)
    assert strict_json(planrun("show", first.strip(), "--json")[1])["key"] == "k"
    assert first.strip() in planrun("events", "r1")[1]
    planrun("cancel", second.strip())
    assert [line.get("exit") for line in strict_json(planrun("retry", "r1", "nowhere", "--json")[1])] == [None, 6]


def test_why_is_one_sentence_or_one_document(planrun: Planrun) -> None:
    planrun("submit", "preview", "--delay", "60", "--request-id", "r1")
    status, out, _ = planrun("why", "r1")
    found = strict_json(planrun("why", "r1", "--json")[1])

    assert (status, len(out.splitlines()), "delayed" in out) == (Exit.FINISHED, 1, True)
    assert (found["cause"], found["state"], found["job_id"] in out) == ("delayed", "queued", True)
    assert planrun("why", "nowhere")[0] == Exit.UNKNOWN


def test_kinds_counts_open_jobs_and_warns_of_those_that_nobody_serves(planrun: Planrun) -> None:
    planrun("submit", "preview")
    planrun("submit", "preview", "--delay", "60")
    planrun("submit", "preview", "--version", "v2", "--request-id", "r1")
    planrun("cancel", "r1")
    status, out, warning = planrun("kinds")
    [row] = strict_json(planrun("kinds", "--json")[1])

    assert (status, len(out.splitlines())) == (Exit.FINISHED, 2)
    assert "preview v1: 2 open jobs, and no live worker has it" in warning
    assert (row["kind"], row["version"], row["queued"], row["running"], row["live"]) == ("preview", "v1", 2, 0, [])


def test_backup_makes_a_ledger_of_its_own_and_never_overwrites(planrun: Planrun, folder: Path) -> None:
    planrun("submit", "preview", "--request-id", "r1")
    status, out, _ = planrun("backup", "copy.db")
    again, _, why_not = planrun("backup", "copy.db")
    planrun("cancel", "r1")

    assert (status, "copy.db" in out, again, "never overwrites" in why_not) == (Exit.FINISHED, True, Exit.USAGE, True)
    assert strict_json(planrun("show", "r1", "--json", "--url", "sqlite:///copy.db")[1])["state"] == "queued"
    assert strict_json(planrun("backup", "other.db", "--json")[1])["bytes"] == (folder / "other.db").stat().st_size


def test_gc_says_when_there_is_nothing_to_remove(planrun: Planrun) -> None:
    planrun("submit", "preview")

    assert planrun("gc", "--grace-s", "0")[:2] == (Exit.FINISHED, "nothing to remove\n")
    assert strict_json(planrun("gc", "--json")[1]) == {"gone": []}
    assert planrun("gc", "--grace-s", "-1")[0] == Exit.USAGE


def test_the_list_and_the_events_are_filtered(planrun: Planrun) -> None:
    planrun("submit", "preview", "--key", "k", "--request-id", "r1")
    planrun("submit", "preview", "--version", "v2", "--request-id", "r2")
    planrun("cancel", "r1")

    def listed(*tokens: str) -> list[str]:
        return [job["version"] for job in strict_json(planrun("list", "--json", *tokens)[1])["jobs"]]

    assert listed() == listed("--since-s", "600") == ["v2", "v1"]
    assert (listed("--key", "k"), listed("--version", "v2"), listed("--since-s", "0")) == (["v1"], ["v2"], [])
    assert planrun("list", "--since-s", "-1")[0] == Exit.USAGE
    assert [event["what"] for event in strict_json(planrun("events", "r1", "--json", "--what", "canceled")[1])] == [
        "canceled"
    ]
    assert strict_json(planrun("events", "r1", "--json", "--attempt", "2")[1]) == []


def test_pause_and_resume_are_shown_by_why_kinds_check_and_pauses(planrun: Planrun) -> None:
    planrun("submit", "preview", "--request-id", "r1")
    status, out, _ = planrun("pause", "preview", "--who", "ann", "--why", "new card")
    planrun("pause", "--namespace", "ads")

    assert (status, out) == (Exit.FINISHED, "kind preview is paused\n")
    assert "paused already" in planrun("pause", "preview")[1]
    for tokens in (["why", "r1"], ["kinds"], ["check"]):
        assert "kind preview is paused by ann: new card" in planrun(*tokens)[1], tokens
    assert planrun("check")[0] == Exit.FINISHED
    _, out, left = planrun("resume", "preview", "--who", "bob")
    assert (out, left) == ("kind preview is resumed\n", "still: namespace ads is paused\n")
    assert "was not paused" in planrun("resume", "preview")[1]
    assert "paused" not in planrun("why", "r1")[1]
    assert [row["resumed_who"] for row in strict_json(planrun("pauses", "--json")[1])] == ["", "bob"]
    assert "bob" in planrun("pauses")[1]
    for tokens in (["pause", "two words"], ["pauses", "--limit", "0"]):
        assert planrun(*tokens)[0] == Exit.USAGE
    for tokens in (["pause", "--json"], ["resume", "--json"]):
        strict_json(planrun(*tokens)[1])


def test_a_worker_starts_nothing_that_is_paused_and_everything_else(planrun: Planrun) -> None:
    planrun("submit", "preview", "--namespace", "ads", "--request-id", "held")
    planrun("pause", "--namespace", "ads")
    with started("worker", "film_jobs", "--namespace", "ads", "--namespace", "default"):
        assert planrun("submit", "preview", "--wait", "--timeout-s", "60")[0] == Exit.FINISHED
        assert strict_json(planrun("show", "held", "--json")[1])["state"] == "queued"
        _, out, warning = planrun("kinds")
        backed_up, _, _ = planrun("backup", "copy.db")

        planrun("resume", "--namespace", "ads")

        assert planrun("wait", "held", "--timeout-s", "60")[0] == Exit.FINISHED
        assert ("namespace ads is paused" in out, warning, backed_up) == (True, "", Exit.FINISHED)


def test_workers_are_listed_with_what_they_run_and_as_lost_once_they_are_killed(planrun: Planrun) -> None:
    """C74."""
    planrun("submit", "preview", "--delay", "600")
    assert planrun("workers")[1].split()[:2] == ["worker", "state"]
    with started("worker", "film_jobs", "--name", "box-1") as worker:

        def shown(state: str) -> bool:
            return [row["state"] for row in strict_json(planrun("workers", "--json")[1])] == [state]

        eventually(lambda: shown("ready"))
        worker.kill()
        eventually(lambda: shown("lost"))

    [_, line] = planrun("workers")[1].splitlines()
    assert (line.split()[:2], "ago" in line, "preview v1" in line) == (["box-1", "lost"], True, True)


def test_c61_a_result_that_is_kept_no_longer_has_an_exit_code_of_its_own(
    planrun: Planrun, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = (folder / "film_jobs.py").read_text()
    (folder / "film_jobs.py").write_text(jobs.replace('@job("preview")', '@job("preview", result_ttl=0.01)'))
    with started("worker", "film_jobs", "--job-ttl-s", "0"):
        assert planrun("submit", "preview", "--request-id", "r1", "--wait", "--timeout-s", "60")[0] == Exit.FINISHED
        path = Path(strict_json(planrun("result", "r1", "--json")[1])["outputs"]["preview"]["path"])
        job_id = strict_json(planrun("show", "r1", "--json")[1])["job_id"]
    for tokens, hint in ((["--now"], False), ([], True)):
        assert f"result of job {job_id}" in planrun("gc", "--dry-run", *tokens)[1]
        assert ("`planrun gc --now` does not wait" in caplog.text) is hint
    assert planrun("result", "r1")[0] == Exit.FINISHED
    assert planrun("gc")[1] == "nothing to remove\n"  # the clock of a new ledger is doubted for a day

    _, out, _ = planrun("gc", "--now", "--grace-s", "3600")

    assert path.exists()
    assert out == f"result of job {job_id}\n"
    for tokens in (["wait", "r1"], ["result", "r1"], ["wait", "r1", "--json"]):
        status, _, err = planrun(*tokens)
        assert (status, "no longer kept" in err) == (Exit.GONE, True), tokens
    assert re.search(r"state +finished[^$]*result +no longer kept", planrun("show", "r1")[1])

    assert strict_json(planrun("gc", "--now", "--grace-s", "0", "--json")[1])["gone"][-1].endswith("to the archive")

    assert not path.exists()
    for verb in ("wait", "result", "show", "events", "cancel", "why", "logs"):
        status, _, err = planrun(verb, "r1")
        assert (status, "has finished" in err, f"grep {job_id}" in err) == (Exit.GONE, True, True), verb
    assert planrun("wait", "nowhere")[0] == Exit.UNKNOWN
    command = planrun("show", job_id)[2].partition("archive: ")[2].split()
    assert strict_json(subprocess.check_output(command, text=True))["job"]["state"] == "finished"


def test_a_public_name_has_the_file_of_the_latest_job_and_the_message_comes_after_it(
    planrun: Planrun, folder: Path
) -> None:
    name, public = "campaign-42/master.mp4", folder / "ledger.db.public/default/campaign-42/master.mp4"
    # Says what stands there at the moment at which the message arrives.
    tell = folder / "tell.sh"
    said = f"cat {public} > {folder}/part; cat > {folder}/body; mv {folder}/part {folder}/heard"
    tell.write_text(f"#!/bin/sh\n{said}\n")
    tell.chmod(0o755)
    with started("worker", "film_jobs"):
        status, job_id, _ = planrun("submit", "preview", "--publish", name, "--notify", f"command:{tell}")
        heard = eventually(lambda: (folder / "heard").exists() and (folder / "heard").read_text())
        first = public.stat().st_ino
        again = planrun("submit", "preview", "--publish", f"{name}=preview", "--wait", "--timeout-s", "60")[0]
        eventually(lambda: public.stat().st_ino != first)

        assert (status, again, heard) == (Exit.FINISHED, Exit.FINISHED, "film")
        assert strict_json((folder / "body").read_text())["public_names"] == [name]
        assert "published" in planrun("events", job_id.strip())[1]
        eventually(lambda: not strict_json(planrun("show", job_id.strip(), "--json")[1])["undelivered"])
    for wrong in ("../outside", "/etc/passwd", "a//b", ".hidden", "a=b/c"):
        assert planrun("submit", "preview", "--publish", wrong)[0] == Exit.USAGE, wrong


def test_check_counts_the_answers_that_nobody_takes(planrun: Planrun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planrun.ledger.verbs.reading.VAIN_TRIES", 0)
    planrun("submit", "preview", "--request-id", "r1", "--notify", "command:false")
    well = planrun("check")
    planrun("cancel", "r1")
    status, out, _ = planrun("check")

    assert (well[0], status) == (Exit.FINISHED, Exit.FAILED)
    assert "wrong: 1 answer is sent in vain, the oldest, of job " in out
    assert strict_json(planrun("check", "--json")[1])["owed in vain"]["route"] == "command:false"
