"""A full disk: every caller gets a true answer, nothing is half written, and all goes on when space returns."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import signal
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from planrun.core.errors import LedgerUnavailable
from planrun.core.messages import SubmitReply
from tests.lab import Lab
from tests.small_disk import SmallDisk, small_disk
from tests.soak import disk_full
from tests.soak.disk_full import LabOnDisk

pytestmark = [pytest.mark.anyio, pytest.mark.serial, pytest.mark.needs_root]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", megabytes=8) as disk:
        yield disk


@pytest.fixture
async def on_disk(tmp_path: Path, disk: SmallDisk) -> AsyncIterator[LabOnDisk]:
    lab = LabOnDisk(tmp_path, disk=disk)
    yield lab
    await lab.close()


async def test_64_callers_on_a_full_disk_get_true_answers(on_disk: LabOnDisk) -> None:
    """What was answered is there after opening anew; what was not may be repeated, and is there once."""
    seen = await disk_full.crowd(on_disk, callers=64, rounds=30)

    assert seen.refused > 0
    assert seen.answered > 0
    assert seen.missing == []
    assert seen.doubled == []
    assert seen.integrity == "ok"


async def test_jobs_that_run_while_the_disk_is_full_keep_their_claim(on_disk: LabOnDisk) -> None:
    """C32: they end while nothing can be written, and settle when space returns; the log stays short."""
    seen = await disk_full.hold(on_disk, full_s=8, lease_s=2.0)

    assert seen.refused == seen.asked > 0
    assert seen.states == ["finished"] * 5
    assert (seen.starts, seen.losses) == (5, 0)
    assert seen.log_lines < 100
    await on_disk.check(*seen.job_ids)
