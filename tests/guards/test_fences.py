"""Each fence is taken down in a copy of the source: a test that was written for it must fail there.

A mutant that lives is a hole in the tests, found by nobody else.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

import planrun

from .fences import FENCES, Fence

ROOT = Path(__file__).parents[2]
SOURCE = Path(planrun.__file__).parent
pytestmark = pytest.mark.slow


def copy_source(folder: Path) -> Path:
    copy = folder / "planrun"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def run_tests(folder: Path, tests: Iterable[str]) -> subprocess.CompletedProcess[str]:
    """Run tests against the planrun that lies in a folder."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTEST_XDIST_WORKER", None)
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command += [f"--basetemp={folder / 'tmp'}", *tests]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("fence", FENCES, ids=lambda fence: re.sub(r"\W+", "-", fence.name))
def test_without_its_fence_a_test_fails(fence: Fence, tmp_path: Path) -> None:
    file = copy_source(tmp_path) / fence.file
    text = file.read_text()
    assert text.count(fence.old) == 1, f"{fence.file} has changed: bring the fence up to date"
    file.write_text(text.replace(fence.old, fence.new))

    done = run_tests(tmp_path, fence.tests)

    assert done.returncode == pytest.ExitCode.TESTS_FAILED, f"the mutant lives:\n{done.stdout}{done.stderr}"


def test_with_all_fences_every_named_test_passes(tmp_path: Path) -> None:
    copy_source(tmp_path)
    named = sorted({test for fence in FENCES for test in fence.tests})

    done = run_tests(tmp_path, named)

    assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr


def test_the_copy_is_what_the_tests_run_against(tmp_path: Path) -> None:
    """Else every mutant would live, or die of something else."""
    (copy_source(tmp_path) / "core" / "lease.py").write_text("raise RuntimeError('this is the copy')\n")

    done = run_tests(tmp_path, ["tests/core/test_lease.py"])

    assert "this is the copy" in done.stdout
