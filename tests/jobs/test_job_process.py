"""One job process, seen from its worker: answers, failures, floods, warm reuse."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from planrun.core.life import Outcome
from planrun.core.limits import Vitals
from planrun.worker import process
from planrun.worker.exits import explain
from planrun.worker.happenings import Done, Exited, Failed, Progress
from planrun.worker.isolation import Level
from tests.jobs.stage import Stage, living

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def run_to_end(stage: Stage, kind: str, *, level: Level = Level.SUBREAPER, **params: Any) -> list[Any]:
    await stage.start(kind, level=level)
    stage.run(**params)
    return await stage.to_end()


@pytest.mark.parametrize("level", list(Level))
async def test_a_job_gets_its_inputs_and_gives_its_answer(stage: Stage, level: Level, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("input")
    await stage.start("echo", level=level)
    stage.run(inputs={"upload": tmp_path / "in.txt"}, number=2**63, text="ü", ratio=-0.0, none=None)
    done, exited = await stage.to_end()

    assert done.value["params"] == {"number": 2**63, "text": "ü", "ratio": -0.0, "none": None}
    assert done.value["inputs"] == {"upload": "input"}
    assert done.value["hint"] == "hint"
    assert done.value["cwd"] == str(tmp_path / "attempt" / "scratch")
    assert Progress(0.5, "half way") in stage.seen
    assert (exited.code, exited.signal, exited.killed) == (0, None, False)
    assert stage.log.read_text() == "a line\n"
    assert await stage.process.next() is exited


async def test_an_async_function_runs_too(stage: Stage) -> None:
    done, _ = await run_to_end(stage, "echo-async", a=1)

    assert done.value == {"a": 1}


@pytest.mark.parametrize("group", ["inputs", "params"])
@pytest.mark.parametrize("kind", ["needs-what-is-missing", "has-a-default"])
async def test_what_was_not_given_fails_once_and_is_named(stage: Stage, group: str, kind: str) -> None:
    """Not as a KeyError that is tried again, to fail the same way three times more."""
    ended, _ = await run_to_end(stage, kind, group=group)
    has = "group" if group == "params" else "none"

    if kind == "has-a-default":
        assert ended == Done({}, "a default")
    else:
        assert (ended.outcome, ended.code) == (Outcome.PERMANENT, "missing")
        assert ended.message == f"this kind needs {group}.video, and was given: {has}; submit it again with it"


@pytest.mark.parametrize(
    ("case", "outputs", "value"),
    [("bare", {"result": "kept.txt"}, None), ("relative", {"out": "kept.txt"}, {"frames": 3})],
)
async def test_paths_are_files_to_keep(stage: Stage, case: str, outputs: dict[str, str], value: Any) -> None:
    done, _ = await run_to_end(stage, "files", case=case)
    scratch = stage.folder / "attempt" / "scratch"

    assert done == Done({name: scratch / file for name, file in outputs.items()}, value)


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("missing", "there is no such file"),
        ("outside", "outside scratch"),
        ("link", "which leads to /etc/passwd, outside scratch"),
        ("folder", "not a file"),
        ("text", "return a Path to keep it"),
        ("name", "is not a name"),
        ("deep", "the job's answer.deep[0]: PosixPath is not JSON"),
    ],
)
async def test_a_file_that_cannot_be_kept_fails_once(stage: Stage, case: str, words: str) -> None:
    failed, _ = await run_to_end(stage, "files", case=case)

    assert (failed.outcome, failed.code) == (Outcome.PERMANENT, "bad-answer")
    assert words in failed.message


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("bytes", "answer.a[0]: bytes is not JSON"),
        ("nan", "answer.a: nan is not JSON"),
        ("infinity", "answer: inf is not JSON"),
        ("datetime", "answer.when: datetime is not JSON"),
        ("set", "set is not JSON; use a list"),
        ("tuple", "tuple is not JSON; use a list"),
        ("key", "answer.a: a key of type int"),
        ("surrogate", "lone surrogate"),
        ("cycle", "contains itself"),
        ("deep", "nested deeper than 100 levels"),
        ("huge", "larger than 262144 bytes"),
        ("huge-integer", "more than 3 900 digits"),
    ],
)
async def test_c86_a_value_that_cannot_be_written_fails_once_with_its_path(stage: Stage, case: str, words: str) -> None:
    failed, _ = await run_to_end(stage, "returns", case=case)

    assert (failed.outcome, failed.code) == (Outcome.PERMANENT, "bad-answer")
    assert words in failed.message
    assert "\n" not in failed.message


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("permanent", Failed(Outcome.PERMANENT, "bad filter", "ffmpeg-bad-filter")),
        ("transient", Failed(Outcome.TRANSIENT, "no network", "transient")),
        ("fatal", Failed(Outcome.FATAL, "card has locked up", "gpu")),
        ("value", Failed(Outcome.TRANSIENT, "ValueError: two lines", "value-error")),
        ("hostile", Failed(Outcome.TRANSIENT, "HostileError: (its text cannot be shown)", "hostile-error")),
        ("memory", Failed(Outcome.TRANSIENT, "MemoryError: out of memory", "out-of-memory")),
        ("disk", Failed(Outcome.TRANSIENT, "OSError: [Errno 28] No space left on device", "disk-full")),
        ("exit-3", Failed(Outcome.TRANSIENT, "the job exited with 3", "exit")),
        ("exit-0", Done({}, None)),
        ("interrupt", Failed(Outcome.TRANSIENT, "KeyboardInterrupt", "keyboard-interrupt")),
        (
            "stopped",
            Failed(Outcome.TRANSIENT, "the job raised Stopped without being asked to stop", "stopped"),
        ),
    ],
)
async def test_c58_the_class_of_an_exception_decides_and_its_text_is_one_line(
    stage: Stage, case: str, expected: object
) -> None:
    ended, exited = await run_to_end(stage, "raises", case=case)

    assert ended == expected
    assert exited.code == 0
    assert isinstance(ended, Done) or case == "stopped" or "Traceback" in stage.log.read_text()


@pytest.mark.parametrize(
    ("params", "code", "words"),
    [
        ({"signal": signal.SIGSEGV}, "signal", "SIGSEGV (invalid memory access"),
        ({"segfault": True}, "signal", "SIGSEGV"),
        ({"signal": signal.SIGABRT}, "signal", "SIGABRT"),
        ({"signal": signal.SIGKILL}, "signal", "SIGKILL (from outside"),
        ({"exit": 3}, "exit", "exited with code 3"),
        ({"exit": 0}, "no-answer", "before the job had returned"),
    ],
)
@pytest.mark.parametrize("level", list(Level))
async def test_c50_every_death_is_explained_with_the_last_lines(
    stage: Stage, level: Level, params: dict[str, Any], code: str, words: str
) -> None:
    (exited,) = await run_to_end(stage, "dies", level=level, **params)
    outcome, failure = explain(exited)

    assert (outcome, failure.code) == (Outcome.TRANSIENT, code)
    assert words in failure.message
    assert failure.tail.splitlines()[-2:] == ["line 28", "line 29"]
    assert len(failure.tail.splitlines()) == 20


async def test_a_child_that_forgets_to_exit_does_not_answer(stage: Stage) -> None:
    done, _ = await run_to_end(stage, "forks-and-returns")

    assert done == Done({}, {"who": "parent"})


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (None, "No module named 'broken_jobs'"),
        ("def f(:\n", "broken_jobs.py:1): SyntaxError: invalid syntax"),
        ("\n\n1/0\n", "broken_jobs.py:3): ZeroDivisionError"),
        ("raise SystemExit(5)\n", "SystemExit: 5"),
        ("", "declares no @job('echo', version='v1')"),
    ],
)
async def test_a_module_that_cannot_be_imported_is_a_bad_moment_with_its_place(
    stage: Stage, tmp_path: Path, source: str | None, words: str
) -> None:
    if source is not None:
        (tmp_path / "broken_jobs.py").write_text(source)
    await stage.start("echo", module="broken_jobs")
    stage.process._import_path.append(str(tmp_path))
    stage.run()
    failed, _ = await stage.to_end()

    assert (failed.outcome, failed.code) == (Outcome.TRANSIENT, "import")
    assert words in failed.message


async def test_c52_two_hundred_megabytes_of_output_are_drained_and_capped(stage: Stage) -> None:
    await stage.start("shout", log_bytes_max=64 * 1024)
    stage.run(mb=200)
    done, _ = await stage.to_end()
    log = stage.log.read_text()

    assert done == Done({}, None)
    assert log.startswith("x" * 99 + "\n")
    assert log.endswith("the end\n")
    assert "bytes left out" in log
    assert len(log) < 64 * 1024 + 100


async def test_c52_a_reader_of_standard_input_meets_its_end(stage: Stage) -> None:
    done, _ = await run_to_end(stage, "reads-stdin")

    assert done.value == ["", ""]


@pytest.mark.parametrize("level", list(Level))
async def test_c52_a_daemon_that_holds_the_output_does_not_delay_the_end(stage: Stage, level: Level) -> None:
    started = time.monotonic()
    done, exited = await run_to_end(stage, "daemon-holds-output", level=level, tag=f"600.{secrets.randbits(48)}")

    assert (done.value, exited.code) == ("over", 0)
    assert exited.tail == "said before the end"
    assert time.monotonic() - started < 5


async def test_c58_a_million_reports_are_cheap_and_the_last_one_arrives(stage: Stage) -> None:
    await stage.start("many-reports")
    stage.run(times=1_000_000)
    await stage.until(Done, timeout_s=60)
    reports = [happening for happening in stage.seen if isinstance(happening, Progress)]
    done = stage.seen[-1]

    assert reports[-1] == Progress(1.0, "counted")
    assert isinstance(done, Done)
    assert len(reports) < 10 * done.value + 10


async def test_c58_garbage_reports_never_break_a_job(stage: Stage) -> None:
    done, _ = await run_to_end(stage, "garbage-reports")
    reports = [happening for happening in stage.seen if isinstance(happening, Progress)]

    assert done.value == "unharmed"
    assert reports[-1].fraction == 0.25
    assert len(reports[-1].message) == 500
    assert len(stage.log.read_text().splitlines()) == 1


async def test_the_job_process_holds_nothing_that_leads_to_a_store_queue_or_ledger(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "PLANRUN_URL", "SOME_TOKEN"):
        monkeypatch.setenv(name, "secret")
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    await stage.start("introspect", level=Level.SUBREAPER, lock_fd=lock)
    stage.run()
    done, _ = await stage.to_end()
    os.close(lock)
    seen = done.value
    opened = {number: target for number, target in seen["descriptors"].items() if int(number) > 2}

    assert seen["descriptors"]["0"] == "/dev/null"
    assert [target.partition(":")[0] for target in opened.values()] == ["socket"]
    assert seen["of_children"] == ["0", "1", "2", "3"]  # 3 is the listing's own
    assert "secret" not in json.dumps(seen["environment"])
    assert seen["environment"]["HOME"] == str(tmp_path / "attempt" / "home")
    assert {"planrun.jobs.runner", "planrun.jobs"} & set(seen["modules"])
    for forbidden in ("apsw", "msgspec", "httpx2", "planrun.ledger", "planrun.storage", "planrun.transport"):
        assert not [name for name in seen["modules"] if name == forbidden or name.startswith(f"{forbidden}.")]
    for module in ("client", "config", "orchestrator", "wiring", "worker"):
        assert f"planrun.{module}" not in seen["modules"]
    assert not [name for name in seen["reachable"] if "ocket" in name or "Channel" in name or "Line" in name]
    assert seen["session"] == seen["pid"]
    assert seen["oom"] == "500"


async def test_at_the_full_level_a_job_sees_only_its_own_processes(stage: Stage) -> None:
    done, _ = await run_to_end(stage, "introspect", level=Level.FULL)

    assert done.value["pid"] == 2
    assert done.value["self"] == "2"


@pytest.mark.parametrize("level", list(Level))
async def test_a_warm_process_is_reused_and_cleared_in_between(stage: Stage, level: Level, tmp_path: Path) -> None:
    tag = f"600.{secrets.randbits(48)}"
    await stage.start("warm", level=level, warm=True)
    stage.run(tag=tag)
    first = await stage.until(Done)
    await stage.process.clear()

    assert not living(tag)

    second_log = tmp_path / "second.log"
    stage.run_in(tmp_path / "two" / "scratch", second_log)
    second = await stage.until(Done)
    exited = await stage.process.kill()

    assert (first.value["runs"], second.value["runs"]) == (1, 2)
    assert first.value["pid"] == second.value["pid"]
    assert second.value["cwd"] == str(tmp_path / "two" / "scratch")
    assert second.value["tmp"] == str(tmp_path / "two" / "tmp")
    assert (stage.log.read_text(), second_log.read_text()) == ("run 1\n", "run 2\n")
    assert (exited.signal, exited.killed) == (signal.SIGKILL, True)


async def test_what_a_job_prints_before_its_guardian_attends_is_in_its_log(stage: Stage, tmp_path: Path) -> None:
    await stage.start("warm", level=Level.SUBREAPER, warm=True)
    stage.run(tag="600")
    await stage.until(Done)
    await stage.process.clear()
    second_log = tmp_path / "second.log"

    os.kill(stage.process._launcher.pid, signal.SIGSTOP)
    stage.run_in(tmp_path / "two" / "scratch", second_log)
    await stage.until(Done)
    os.kill(stage.process._launcher.pid, signal.SIGCONT)
    await stage.process.kill()

    assert second_log.read_text() == "run 2\n"


async def test_a_guardian_that_stands_still_holds_no_warm_job_up(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_CLEAR_TIMEOUT_S", 0.5)
    tag = f"600.{secrets.randbits(48)}"
    await stage.start("warm", level=Level.SUBREAPER, warm=True)
    stage.run(tag=tag)
    await stage.until(Done)

    os.kill(stage.process._launcher.pid, signal.SIGSTOP)
    async with asyncio.timeout(5):
        await stage.process.clear()

    assert stage.process.has_ended
    assert not living(tag)


@pytest.mark.parametrize("level", list(Level))
async def test_the_tree_is_measured_every_second(stage: Stage, level: Level) -> None:
    await stage.start("busy", level=level)
    stage.run(seconds=2.2)
    vitals = await stage.until(Vitals)
    vitals = await stage.until(Vitals)
    _, exited = await stage.to_end()

    assert vitals.cpu_ms > 200
    assert vitals.rss_bytes > 60_000_000
    assert 2_900_000 < vitals.scratch_bytes < 4_000_000
    assert exited.max_rss_bytes > 60_000_000


async def test_nonsense_on_the_line_fails_the_attempt_and_nothing_else(stage: Stage) -> None:
    await stage.start("sends-nonsense")
    stage.run()
    failed = await stage.until(Failed)
    exited = await stage.process.kill()

    assert failed.code == "protocol"
    assert exited.killed


async def test_a_second_kill_gives_the_same_end(stage: Stage) -> None:
    await stage.start("stops-itself")
    stage.run()
    first = await stage.process.kill()

    assert await stage.process.kill() == first
    assert await stage.until(Exited) == first
