"""Each fence is taken down in a copy of the source: a test that was written for it must fail there.

A mutant that lives is a hole in the tests, found by nobody else.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

import planrun

from .afar import AFAR
from .answers import ANSWERS
from .doors import DOORS
from .fences import CLAUSES, SECOND_LINE, Fence
from .fleet import FLEET
from .recovery import RECOVERY
from .retention import RETENTION
from .rules import CORE_RULES, RULES
from .shortcuts import SHORTCUTS
from .stores import STORES
from .transport import TRANSPORT

ROOT = Path(__file__).parents[2]
SOURCE = Path(planrun.__file__).parent
pytestmark = pytest.mark.slow

FENCES = [
    *CLAUSES,
    *RULES,
    *CORE_RULES,
    *RETENTION,
    *SHORTCUTS,
    *SECOND_LINE,
    *DOORS,
    *STORES,
    *TRANSPORT,
    *FLEET,
    *ANSWERS,
    *RECOVERY,
    *AFAR,
]
RunTests = Callable[[Path, Iterable[str]], int]


@pytest.fixture(scope="module")
def run_tests() -> Iterator[RunTests]:
    """Run tests against the planrun that lies in a folder; the exit code is pytest's, the words are in `log`."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    host = subprocess.Popen(
        [sys.executable, "-m", "tests.guards.host"],
        cwd=ROOT,
        env={**environment, "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert host.stdin is not None
    assert host.stdout is not None
    asking, answers = host.stdin, host.stdout

    def run(folder: Path, tests: Iterable[str]) -> int:
        print(json.dumps({"folder": str(folder), "tests": list(tests)}), file=asking, flush=True)
        return int(answers.readline())

    yield run
    asking.close()
    answers.close()
    host.wait(10)


def copy_source(folder: Path) -> Path:
    copy = folder / "planrun"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@pytest.mark.parametrize("fence", FENCES, ids=lambda fence: re.sub(r"\W+", "-", fence.name))
def test_without_its_fence_a_test_fails(run_tests: RunTests, fence: Fence, tmp_path: Path) -> None:
    file = copy_source(tmp_path) / fence.file
    text = file.read_text()
    assert text.count(fence.old) == 1, f"{fence.file} has changed: bring the fence up to date"
    file.write_text(text.replace(fence.old, fence.new))

    code = run_tests(tmp_path, fence.tests)

    assert code == pytest.ExitCode.TESTS_FAILED, f"the mutant lives:\n{(tmp_path / 'log').read_text()}"


@pytest.mark.timeout(300)
def test_with_all_fences_every_named_test_passes(run_tests: RunTests, tmp_path: Path) -> None:
    copy_source(tmp_path)
    named = sorted({test for fence in FENCES for test in fence.tests})

    code = run_tests(tmp_path, named)

    assert code == pytest.ExitCode.OK, (tmp_path / "log").read_text()


def test_the_copy_is_what_the_tests_run_against(run_tests: RunTests, tmp_path: Path) -> None:
    """Else every mutant would live, or die of something else."""
    (copy_source(tmp_path) / "core" / "lease.py").write_text("raise RuntimeError('this is the copy')\n")

    run_tests(tmp_path, ["tests/core/test_lease.py"])

    assert "this is the copy" in (tmp_path / "log").read_text()
