"""`command`: its declaration, its arguments, every line that a command may say, and its end."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from planrun.core.errors import Invalid
from planrun.core.kinds import MIB
from planrun.core.life import Outcome
from planrun.jobs import command, declaration
from planrun.worker.happenings import CheckpointReady, Done, Exited, Failed, Progress, Stopped
from tests.jobs.stage import Stage
from tests.lab import ROOT

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def say(stage: Stage, line: str, **fields: Any) -> Any:
    """Run a line of shell as a job; how it ended."""
    await stage.start(fields.pop("kind", "shell"), module="spoken_jobs")
    stage.run(line=line, **fields)
    return (await stage.to_end())[0]


# --- the declaration ---


@pytest.fixture
def nothing_declared(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(declaration, "_jobs", {})
    return iter(())


@pytest.mark.usefixtures("nothing_declared")
async def test_a_command_is_a_kind_of_the_module_that_declares_it() -> None:
    command("encode", ["sh"], version="v2", needs=["gpu"], resumable="r-1", stall_s=9, memory_bytes_max="1MiB")
    [kind] = declaration.declared_kinds()

    assert (kind.kind, kind.version, kind.module) == ("encode", "v2", __name__)
    assert (kind.needs, kind.resumable, kind.stall_s, kind.memory_bytes_max) == (("gpu",), "r-1", 9, MIB)


@pytest.mark.usefixtures("nothing_declared")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("./encode --fast", "a list of texts"),
        ([], "names no program"),
        (["sh", 4], "a list of texts"),
        (["sh", "{param.crf}"], "{param.crf} is unknown"),
        (["./nonsuch"], "there is no program"),
        (["./test_exec_kind.py"], "may not be run"),
    ],
)
async def test_a_bad_command_says_what_is_wrong(arguments: Any, words: str) -> None:
    with pytest.raises(Invalid) as refused:
        command("encode", arguments)

    assert words in str(refused.value)


# --- what it is told ---


async def test_arguments_are_filled_in_without_a_shell(stage: Stage, tmp_path: Path) -> None:
    await stage.start("filled", module="spoken_jobs")
    stage.run(inputs={"text": tmp_path / "two words"}, n="$(id)", flag=True)
    await stage.to_end()

    assert stage.log.read_text() == f"{tmp_path}/two words\n<$(id)>true\n{{print $1}}\n\n"


async def test_what_was_not_submitted_is_named(stage: Stage) -> None:
    await stage.start("filled", module="spoken_jobs")
    stage.run(n=1)
    failed = (await stage.to_end())[0]

    assert (failed.outcome, failed.code) == (Outcome.PERMANENT, "missing")
    assert "needs inputs.text, and was given: none" in failed.message


@pytest.mark.parametrize(
    ("given", "words"),
    [("x" * 200_000, "the arguments are too long; read them from inputs.json"), ("a\0b", "a NUL in it")],
)
async def test_a_parameter_that_cannot_be_an_argument_fails_once(stage: Stage, given: str, words: str) -> None:
    failed = await say(stage, given)

    assert (failed.outcome, failed.code) == (Outcome.PERMANENT, "argument")
    assert words in failed.message


async def test_signals_are_as_every_program_expects_them(stage: Stage) -> None:
    """Python ignores SIGPIPE; a child that did so too would complain."""
    await say(stage, "yes | head -n 1")

    assert stage.log.read_text() == "y\n"


async def test_a_file_tells_it_everything(stage: Stage, tmp_path: Path) -> None:
    done = await say(stage, 'cp "$PLANRUN_INPUTS" out/told.json; ls /proc/self/fd', inputs={"a": tmp_path / "ä"}, n=1.5)
    told = json.loads(done.outputs["told.json"].read_text())

    assert told.pop("params").pop("n") == 1.5
    assert told == {
        "inputs": {"a": str(tmp_path / "ä")},
        "scratch": str(tmp_path / "attempt" / "scratch"),
        "checkpoint": None,
        "attempt": 1,
        "idempotency_hint": "hint",
    }
    assert stage.log.read_text().split()[:5] == ["0", "1", "2", "3", "4"]
    assert len(stage.log.read_text().split()) == 6  # and the folder that is being listed


# --- what it says ---


async def test_progress_is_a_number_or_a_share_and_nonsense_is_harmless(stage: Stage) -> None:
    await say(stage, "echo progress much >&3; echo progress 3/0 >&3; echo dance >&3; echo progress 3/8 two words >&3")

    assert stage.seen[0] == Progress(0.375, "two words")
    log = stage.log.read_text()
    assert "progress() was called with something that is not a number" in log
    assert "ignored the line 'dance'" in log


@pytest.mark.parametrize(
    ("line", "outputs", "value"),
    [
        ("", {}, None),
        ("echo a > out/a; echo b > out/b", {"a": "out/a", "b": "out/b"}, None),
        ("echo a > out/a; echo 'x y' > 'x y'; echo 'output movie x y' >&3", {"movie": "x y"}, None),
        ("echo 'value [1, \"ü\"]' >&3", {}, [1, "ü"]),
        ("echo 'value 1' >&3; printf 'value 2' >&3", {}, 2),
        ("echo a > out/a; echo 'value {\"n\": 1}' >&3", {"a": "out/a"}, {"n": 1}),
        ("exec 3>&-; sleep 0.1; echo a > out/a", {"a": "out/a"}, None),
        ("sleep 600 & echo a > out/a", {"a": "out/a"}, None),
    ],
)
async def test_files_and_values_are_its_answer(stage: Stage, line: str, outputs: dict[str, str], value: Any) -> None:
    done = await say(stage, line)
    scratch = stage.folder / "attempt" / "scratch"

    assert done == Done({name: scratch / path for name, path in outputs.items()}, value)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("echo output movie >&3", "write: output NAME PATH"),
        ("echo output movie nothing.mp4 >&3", "there is no such file"),
        ("echo output movie /etc/passwd >&3", "outside scratch"),
        ("mkdir out/frames", "not a file"),
        ("echo value '{' >&3", "is not JSON"),
        ("echo value NaN >&3", "nan is not JSON"),
        ("{ printf 'value '; printf %100000s | tr ' ' '['; } >&3", "is not JSON"),
        ("echo a > out/a; echo value 1 >&3", "has to be a JSON object"),
        ("echo a > out/a; echo 'value {\"a\": 1}' >&3", "has to be a JSON object"),
        ("echo error awful >&3", "write: error permanent|transient|fatal"),
        ("head -c 2000000 /dev/zero >&3", "a line of more than"),
    ],
)
async def test_an_answer_that_is_none_fails_once_and_says_why(stage: Stage, line: str, words: str) -> None:
    failed = await say(stage, line)

    assert isinstance(failed, Failed)
    assert failed.outcome is Outcome.PERMANENT
    assert words in failed.message


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("echo 'error permanent [bad-frame] frame 12 is empty' >&3", ("permanent", "bad-frame", "frame 12 is empty")),
        ("echo 'error transient no network' >&3; exit 10", ("transient", "transient", "no network")),
        ("echo error fatal >&3", ("fatal", "fatal", "the command called it fatal, without a message")),
        ("echo error fatal >&3; printf 'error permanent last one' >&3", ("permanent", "permanent", "last one")),
        ("exit 10", ("permanent", "exit", "the command exited with code 10 (permanent)")),
        ("exit 12", ("fatal", "exit", "the command exited with code 12 (fatal)")),
        ("exit 143", ("transient", "exit", "the command exited with code 143")),
        ("kill -TERM $$", ("transient", "signal", "the command was killed by SIGTERM")),
        ("kill -40 $$", ("transient", "signal", "the command was killed by signal 40")),
    ],
)
async def test_the_last_error_line_decides_and_then_the_exit_code(
    stage: Stage, line: str, expected: tuple[str, str, str]
) -> None:
    failed = await say(stage, line)

    assert (str(failed.outcome), failed.code, failed.message) == expected


@pytest.mark.parametrize(
    ("kind", "script", "words"),
    [
        ("not-here", "", "there is no nonsuch-program here"),
        ("script", "#!/nonsuch/interpreter\n", "or not what runs it"),
        ("script", "\0\1", "nothing that this machine can run"),
    ],
)
async def test_a_program_that_cannot_start_may_do_so_elsewhere(
    stage: Stage, tmp_path: Path, kind: str, script: str, words: str
) -> None:
    path = tmp_path / "script"
    path.write_text(script)
    path.chmod(0o755)
    failed = await say(stage, "", kind=kind, script=str(path))

    assert (failed.outcome, failed.code) == (Outcome.TRANSIENT, "no-program")
    assert words in failed.message


# --- checkpoints and stopping ---

LEAVE = "mkdir checkpoint; echo checkpoint >&3; read -r answer <&4; "


@pytest.mark.parametrize("taken", [True, False], ids=["taken", "refused"])
async def test_a_checkpoint_is_answered(stage: Stage, taken: bool) -> None:
    await stage.start("shell", module="spoken_jobs")
    stage.run(line=LEAVE + 'echo "value \\"$answer\\"" >&3')
    ready = await stage.until(CheckpointReady)
    stage.process.answer_checkpoint(ready.seq, taken=taken, why="disk full")

    assert (await stage.until(Done)).value == ("taken" if taken else "refused")


async def test_a_command_need_not_listen_to_an_answer(stage: Stage) -> None:
    await stage.start("shell", module="spoken_jobs")
    stage.run(line="exec 4<&-; mkdir checkpoint; echo checkpoint >&3; echo value 1 >&3")
    ready = await stage.until(CheckpointReady)
    stage.process.answer_checkpoint(ready.seq, taken=True)

    assert (await stage.until(Done)).value == 1


@pytest.fixture
def script_of_the_document(tmp_path: Path) -> Path:
    """The shell script that docs/howto/any-language.md shows, with its work done by nobody."""
    document = (ROOT / "docs" / "howto" / "any-language.md").read_text()
    [text] = [block for block in re.findall(r"```sh\n(.*?)```", document, re.DOTALL) if block.startswith("#!")]
    script = tmp_path / "script.sh"
    script.write_text(text.replace("work_on", "test"))
    script.chmod(0o755)
    return script


async def test_the_script_of_the_document_leaves_checkpoints_and_stops(
    stage: Stage, script_of_the_document: Path
) -> None:
    await stage.start("script", module="spoken_jobs")
    stage.run(script=str(script_of_the_document))
    for _ in range(3):
        ready = await stage.until(CheckpointReady)
        stage.process.answer_checkpoint(ready.seq, taken=True)
    ready = await stage.until(CheckpointReady)
    stage.process.ask_stop()
    stage.process.answer_checkpoint(ready.seq, taken=True)

    assert await stage.until(Stopped)
    assert (stage.folder / "attempt" / "scratch" / "checkpoint" / "done").read_text() == "4\n"


async def test_the_script_of_the_document_goes_on_from_one(
    stage: Stage, script_of_the_document: Path, tmp_path: Path
) -> None:
    (tmp_path / "earlier").mkdir()
    (tmp_path / "earlier" / "done").write_text("99")
    await stage.start("script", module="spoken_jobs")
    stage.run(checkpoint=tmp_path / "earlier", script=str(script_of_the_document))
    ready = await stage.until(CheckpointReady)
    stage.process.answer_checkpoint(ready.seq, taken=True)

    assert (await stage.until(Done)).outputs["done.txt"].read_text() == "100\n"


async def test_a_checkpoint_without_its_folder_is_a_mistake(stage: Stage) -> None:
    failed = await say(stage, "echo checkpoint >&3; read -r answer <&4")

    assert (failed.outcome, failed.code) == (Outcome.PERMANENT, "checkpoint-missing")


async def test_asked_to_stop_it_gets_a_signal_and_is_over_after_its_checkpoint(stage: Stage) -> None:
    await stage.start("shell", module="spoken_jobs")
    stage.run(line=f"trap '{LEAVE} sleep 600' TERM; echo progress 0 >&3; while :; do sleep 0.05; done")
    await stage.until(Progress)
    stage.process.ask_stop()
    ready = await stage.until(CheckpointReady)
    stage.process.answer_checkpoint(ready.seq, taken=True)

    assert await stage.until(Stopped, timeout_s=5)
    assert (await stage.until(Exited, timeout_s=5)).code == 0


@pytest.mark.parametrize("line", ["sleep 600", "trap 'exit 143' TERM; while :; do sleep 0.05; done"])
async def test_a_command_that_ends_at_the_signal_has_stopped(stage: Stage, line: str) -> None:
    await stage.start("shell", module="spoken_jobs")
    stage.run(line=f"echo progress 0 >&3; {line}")
    await stage.until(Progress)
    stage.process.ask_stop()

    assert await stage.until(Stopped, timeout_s=5)


async def test_a_command_that_floods_its_descriptor_can_still_be_stopped(stage: Stage) -> None:
    await stage.start("shell", module="spoken_jobs")
    stage.run(line="exec yes progress 0.5 >&3")
    await stage.until(Progress)
    stage.process.ask_stop()

    assert await stage.until(Stopped, timeout_s=10)


async def test_an_async_job_may_leave_a_checkpoint_beside_its_loop(stage: Stage) -> None:
    await stage.start("async-checkpoint", module="spoken_jobs")
    stage.run()
    ready = await stage.until(CheckpointReady)
    stage.process.answer_checkpoint(ready.seq, taken=True)

    assert (await stage.until(Done)).value == ["taken True", "tick"]


async def test_an_async_job_that_is_asked_to_stop_stops(stage: Stage) -> None:
    await stage.start("async-checkpoint", module="spoken_jobs")
    stage.run()
    ready = await stage.until(CheckpointReady)
    stage.process.ask_stop()
    stage.process.answer_checkpoint(ready.seq, taken=True)

    assert await stage.until(Stopped)
