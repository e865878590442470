"""What all tests share: asyncio alone, what a missing program means, bounded property tests."""

from __future__ import annotations

import os
import shutil

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.services.fixtures"]

LONGEST = ("tests/e2e/", "tests/integration/", "tests/transport/")  # they start processes, and wait for them
IN_CI = os.environ.get("CI") == "true"

# A shared machine is sometimes slow: that is no finding. Equal seeds in CI, so that red and green repeat.
settings.register_profile("planrun", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=IN_CI)
settings.load_profile("planrun")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of those that run beside each other each gets as many long ones, and first: else all wait for a few at the end.

    Each begins with a run of neighbours (`--dist worksteal`), which share what their module has started.
    """
    if (beside := getattr(config, "workerinput", None)) is not None:
        number = beside["workercount"]
        long = [item for item in items if item.nodeid.startswith(LONGEST)]
        short = [item for item in items if not item.nodeid.startswith(LONGEST)]
        items[:] = [each for n in range(number) for part in (long, short) for each in _part(part, n, number)]


def _part(items: list[pytest.Item], n: int, number: int) -> list[pytest.Item]:
    return items[len(items) * n // number : len(items) * (n + 1) // number]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what this machine cannot run. In CI a missing program is a failure: a skipped test proves nothing."""
    for mark in item.iter_markers("needs"):
        missing = [program for program in mark.args if shutil.which(program) is None]
        if missing and IN_CI:
            pytest.fail(f"not installed: {', '.join(missing)}", pytrace=False)
        if missing:
            pytest.skip(f"not installed: {', '.join(missing)}")
    if item.get_closest_marker("needs_root") and os.geteuid() != 0:
        pytest.skip("only root can do this")
