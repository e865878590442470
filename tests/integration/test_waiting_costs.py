"""A hundred scripts that wait must not be felt, and all of them get their answer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bench.waiting import measure


@pytest.mark.serial
@pytest.mark.timeout(300)
def test_many_waiting_processes_use_next_to_nothing(tmp_path: Path) -> None:
    """40 here, at most 1 % and 2 % of a core; bench/waiting.py takes 100 and says what it really is."""
    cost = asyncio.run(measure(tmp_path, processes=40, seconds=10))

    assert cost.idle < 0.01
    assert cost.busy < 0.02
    assert cost.end_s < 60
