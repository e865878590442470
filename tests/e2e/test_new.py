"""`planrun new`: what it writes runs as it is, in one try, and it harms nothing."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from planrun.cli.app import run
from planrun.cli.exits import Exit

Planrun = Callable[..., tuple[int, str, str]]


@pytest.fixture
def planrun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Planrun:
    monkeypatch.setenv("PLANRUN_URL", f"sqlite:///{tmp_path}/ledger.db")
    monkeypatch.chdir(tmp_path)

    def call(*tokens: str) -> tuple[int, str, str]:
        capfd.readouterr()
        status = run(tokens)
        out, err = capfd.readouterr()
        return status, out, err

    return call


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--exec"]], ids=["function", "program"])
def test_what_it_writes_runs_with_the_two_commands_that_it_prints(
    planrun: Planrun, tmp_path: Path, options: list[str]
) -> None:
    status, out, _ = planrun("new", "my-thumbnail.2", *options)
    assert status == Exit.FINISHED
    worker, submit = [shlex.split(line) for line in out.splitlines() if line.startswith("  planrun ")]
    assert worker[-1] == "&"
    process = subprocess.Popen([sys.executable, "-m", "planrun.cli", *worker[1:-1]], cwd=tmp_path)
    try:
        status, out, err = planrun(*submit[1:], "--json", "--timeout-s", "30")
        assert status == Exit.FINISHED, err
        answer = json.loads(out)
        assert answer["value"] == {"steps": 10}
        [output] = answer["outputs"].values()
        assert Path(output["path"]).read_text().splitlines()[-1] == "step 10"
        status, out, _ = planrun("submit", "my-thumbnail.2", "steps=0", "--wait", "--json", "--timeout-s", "30")
        assert status == Exit.FAILED
        assert json.loads(out)["error"]["code"] == "bad-steps"
    finally:
        process.terminate()
        process.wait(20)


def test_it_overwrites_nothing(planrun: Planrun, tmp_path: Path) -> None:
    (tmp_path / "encode.sh").write_text("mine")
    status, _, err = planrun("new", "encode", "--exec")

    assert status == Exit.USAGE
    assert "encode.sh exists already" in err
    assert (tmp_path / "encode.sh").read_text() == "mine"
    assert not (tmp_path / "encode.py").exists()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("two words", "is not a name"),
        ("../up", "is not a name"),
        ("1080p", "starts with a letter"),
        ("json", "would hide"),
        ("class", "would hide"),
        ("planrun", "would hide"),
    ],
)
def test_a_name_that_cannot_be_a_module_is_refused(planrun: Planrun, tmp_path: Path, name: str, words: str) -> None:
    status, _, err = planrun("new", name)

    assert status == Exit.USAGE
    assert words in err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_to_is_named(planrun: Planrun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/proc")  # which nobody can write to, root neither
    status, _, err = planrun("new", "thumbnail")

    assert status == Exit.USAGE
    assert "cannot write /proc/thumbnail.py" in err
