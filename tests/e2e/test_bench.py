"""`bench/compare.py` measures: its numbers are looked at by people, that there are some is looked at here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.compare import Row, ratio
from bench.contender import Unfit, peers
from bench.phases import Measured
from bench.servers import SERVERS, program

ROOT = Path(__file__).parents[2]


def compare(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "bench" / "compare.py"), "--folder", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)


@pytest.mark.slow
def test_every_phase_measures_planrun_alone_and_leaves_nothing_behind(tmp_path: Path) -> None:
    sizes = ["--rounds", "1", "--jobs", "50", "--drain-s", "50", "--spaced", "20", "--long-s", "30", "--watch-s", "20"]

    done = compare(tmp_path, "--peers", "", "--phases", "submit,bulk,drain1,latency,child", *sizes)

    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads((tmp_path / "compare.json").read_text())
    measured = {row["phase"]: row["ours"][0]["value"] for row in rows}
    assert list(measured) == ["submit", "bulk", "drain1", "latency", "child"]
    assert all(value > 0 for value in measured.values()), measured
    assert [path.name for path in tmp_path.iterdir()] == ["compare.json"]


def test_an_unknown_peer_or_phase_is_answered_with_what_there_is(tmp_path: Path) -> None:
    for option, known in (("--peers", "huey"), ("--phases", "latency")):
        done = compare(tmp_path, option, "nonsense")

        assert done.returncode == 1
        assert "'nonsense' is unknown: use some of" in done.stderr
        assert known in done.stderr


def test_above_one_means_that_planrun_is_better_whatever_the_unit() -> None:
    twice, once = [Measured(2.0)], [Measured(1.0)]

    assert Row("submit", "jobs/s", "huey", twice, once, load=0).ratios == [2.0]
    assert Row("latency", "ms", "huey", once, twice, load=0).ratios == [2.0]
    assert Row("submit", "jobs/s", "huey", twice + once, once + once, load=0).best_ratio == 2.0
    assert Row("latency", "ms", "huey", twice + once, twice + twice, load=0).best_ratio == 2.0


def test_what_only_one_of_them_does_has_no_ratio() -> None:
    never = [Measured(None, remark="not in 90 s")]

    assert ratio(Row("kill", "s", "huey", [Measured(0.1)], never, load=0)) == "only planrun"
    assert ratio(Row("kill", "s", "huey", never, [Measured(0.1)], load=0)) == "only huey"


def test_a_missing_program_is_named_with_its_package() -> None:
    with pytest.raises(Unfit, match="apt-get install some-package"):
        program("a-program-that-nobody-has", "some-package")


def test_each_peer_has_a_module_and_servers_that_exist() -> None:
    for name, peer in peers().items():
        assert (ROOT / "bench" / "peers" / f"{name}.py").is_file()
        assert set(peer.servers) <= set(SERVERS)
