"""A hundred scripts that wait must not be felt, and all of them get their answer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bench.waiting import measure


@pytest.mark.serial
@pytest.mark.timeout(300)
def test_many_waiting_processes_use_next_to_nothing(tmp_path: Path) -> None:
    """20 here, at most 0.5 % and 1 % of a core; bench/waiting.py takes 100 and says what it really is."""
    cost = asyncio.run(measure(tmp_path, processes=20, seconds=8))

    assert cost.idle < 0.005
    assert cost.busy < 0.01
    assert cost.end_s < 60
