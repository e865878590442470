"""Histories of fixed seeds, and of all that ever failed: whatever goes wrong in them, every rule holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from planrun.sim.history import run_seed
from planrun.sim.settings import Mode

SEEDS = 200
KEPT = [
    (int(line.split()[0]), line.split()[1])
    for line in Path(__file__).with_name("seeds.txt").read_text().splitlines()
    if line and not line.startswith("#")
]


@pytest.mark.parametrize("first", range(1, SEEDS + 1, 10))
def test_whatever_goes_wrong_every_job_ends_once_and_is_announced_once(first: int) -> None:
    for seed in range(first, first + 10):
        report = run_seed(seed)

        assert report.violations == (), f"planrun sim --seed {seed} --trace"


@pytest.mark.parametrize(("seed", "mode"), KEPT)
def test_what_once_failed_holds(seed: int, mode: str) -> None:
    report = run_seed(seed)  # as it failed: whoever names the mode draws another history

    assert report.plan.settings.mode == Mode(mode)
    assert report.violations == (), f"planrun sim --seed {seed} --trace"
