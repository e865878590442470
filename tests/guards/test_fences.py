"""What of `make guards` is quick: every guard stands where it is said to, and its tests exist. Its runs tell the truth.

`make guards` takes them down, all of them.
"""

from __future__ import annotations

import ast
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

DECISIONS = ast.If | ast.IfExp | ast.While | ast.Match | ast.Try | ast.comprehension
GUARDED = ("worker/*.py", "orchestrator/*.py", "core/admission.py", "core/limits.py", "core/lease.py", "core/budget.py")
EXEMPT = {
    "orchestrator/archive.py": "what is lost there is seen by the guards of retention",
    "orchestrator/changes.py": "hints: whoever misses one looks again by itself",
    "orchestrator/counted.py": "numbers for people",
    "orchestrator/fleet.py": "puts the parts of a fleet side by side",
    "orchestrator/notices.py": "hints: whoever misses one asks",
    "orchestrator/options.py": "what an orchestrator is told",
    "orchestrator/watch.py": "hints: whoever misses one looks again by itself",
}
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


def test_whatever_decides_something_for_a_worker_or_for_the_ledger_has_a_guard() -> None:
    """A file without an `if` has no check; for any other, a guard, or the reason why there is none."""
    files = {path for pattern in GUARDED for path in SOURCE.glob(pattern)}
    deciding = {str(path.relative_to(SOURCE)) for path in files if decides(path)}

    assert deciding - {guard.file for guard in EVERY} == set(EXEMPT)


def decides(path: Path) -> bool:
    return any(isinstance(node, DECISIONS) for node in ast.walk(ast.parse(path.read_text())))


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
