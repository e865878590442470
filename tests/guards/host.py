"""A process that has pytest loaded and planrun not: for each request it forks, and the fork runs the tests.

Reads lines of JSON, `{"folder": …, "tests": […]}`; answers each with pytest's exit code. Starting pytest afresh
for every mutant would take most of the time.

    python -m tests.guards.host
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

# What every run would import again.
PRELOADED = ["anyio._backends._asyncio", "anyio.pytest_plugin", "apsw", "hypothesis.stateful", "msgspec.json"]


def run(request: dict[str, Any]) -> None:
    """In the fork: the planrun of that folder, and its tests."""
    folder = Path(request["folder"])
    sys.path.insert(0, str(folder))
    os.environ["PYTHONPATH"] = str(folder)
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    code = pytest.main(
        [
            "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--basetemp={folder / 'tmp'}",
            "-W", "ignore::pytest.PytestAssertRewriteWarning", *request["tests"],
        ]
    )  # fmt: skip
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main() -> None:
    for name in PRELOADED:
        importlib.import_module(name)
    assert "planrun" not in sys.modules
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            run(json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
