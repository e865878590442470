"""A seed is one history: on every machine, in every folder, whatever a process hashes its texts with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from planrun.sim.history import run_seed

SEEDS = (3, 8, 13, 18)
BEFORE = range(21, 31)


def told(seed: int, folder: Path, hash_seed: str) -> str:
    folder.mkdir(exist_ok=True)
    done = subprocess.run(
        [Path(sys.executable).with_name("planrun"), "sim", "--seed", str(seed), "--trace"],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "TMPDIR": str(folder)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_seed_gives_the_same_trace_byte_for_byte(seed: int, tmp_path: Path) -> None:
    first, second = told(seed, tmp_path / "one", "1"), told(seed, tmp_path / "another", "2")

    assert "granted" in first
    assert second == first


def test_a_seed_is_the_same_history_after_others_in_one_process() -> None:
    first = run_seed(3, traced=True).trace
    for seed in BEFORE:
        run_seed(seed)

    assert run_seed(3, traced=True).trace == first
