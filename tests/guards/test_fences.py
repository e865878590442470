"""What of `make guards` is quick: every guard stands where it is said to, and its tests exist. Its runs tell the truth.

`make guards` takes them down, all of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from .copies import SOURCE
from .economy import WASTED
from .every import EVERY
from .fences import Fence

ROOT = Path(__file__).parents[2]
LEASES = "tests/core/test_lease.py"
RUN = """
import json, sys
from pathlib import Path
from tests.guards.fences import Fence
from tests.guards.runs import run_all

guards = [Fence(**{**each, "tests": tuple(each["tests"])}) for each in json.load(sys.stdin)]
print(json.dumps([verdict.as_json() for verdict in run_all(guards, Path(sys.argv[1]), at_once=2)]))
"""


def test_every_guard_stands_where_it_is_said_to_exactly_once() -> None:
    texts = {file: (SOURCE / file).read_text() for file in {guard.file for guard in EVERY}}
    moved = [f"{guard.file}: {guard.name}" for guard in EVERY if texts[guard.file].count(guard.old) != 1]

    assert moved == [], "bring these up to date"


def test_no_two_guards_have_one_name() -> None:
    assert [name for name, count in Counter(guard.name for guard in EVERY).items() if count > 1] == []


def test_what_is_said_to_be_economy_is_said_of_guards_that_exist() -> None:
    assert set(WASTED) - {guard.name for guard in EVERY} == set()


@pytest.mark.slow
def test_every_test_that_a_guard_names_exists() -> None:
    named = sorted({test for guard in EVERY for test in guard.tests})

    done = run("-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *named)

    assert done.returncode == pytest.ExitCode.OK, "\n".join(
        line for line in done.stderr.splitlines() if line.startswith("ERROR")
    )


@pytest.mark.slow
def test_a_run_tells_a_mutant_that_dies_from_one_that_lives_and_one_that_is_no_program(tmp_path: Path) -> None:
    guards = [
        Fence(name, "core/lease.py", "max(self.trusted_until_ms, sent_ms + self.lease_ms)", new, (LEASES,))
        for name, new in (
            ("dies", "sent_ms + self.lease_ms"),
            ("lives", "max(sent_ms + self.lease_ms, self.trusted_until_ms)"),
            ("is no program", "max("),
        )
    ]

    done = run("-c", RUN, str(tmp_path), given=json.dumps([guard._asdict() for guard in guards]))

    verdicts = {each["guard"]: each["killer"] for each in json.loads(done.stdout)}
    assert verdicts.pop("dies").startswith(f"{LEASES}::")
    assert verdicts == {"lives": "", "is no program": ""}


def run(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, input=given, capture_output=True, text=True, timeout=100, check=False
    )
