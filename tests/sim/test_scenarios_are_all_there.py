"""Each scenario of docs/internals/scenarios.md has its test, and one only."""

from __future__ import annotations

import re
from pathlib import Path

GROUPS = {"a": 9, "b": 22, "c": 20, "d": 22, "e": 7, "f": 9, "g": 14}


def test_each_scenario_has_one_test() -> None:
    found = [
        each
        for file in sorted(Path(__file__).parent.glob("test_scenarios_*.py"))
        for each in re.findall(r"^def test_([a-g]\d+)_", file.read_text(), re.MULTILINE)
    ]
    wanted = {f"{group}{number}" for group, count in GROUPS.items() for number in range(1, count + 1)}

    assert sorted(found) == sorted(set(found))
    assert set(found) == wanted
