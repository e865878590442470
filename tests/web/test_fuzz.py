"""What random calls do to the API: no 500, replies as described, and every error says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from planrun.ledger.wire import VERBS
from planrun.web.app import EVERY_ROUTE
from tests.web.fuzzing import fuzz


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_no_random_call_brings_it_out_of_step(tmp_path: Path) -> None:
    """The same calls every time; `make soak SCRIPT=http_fuzz` makes others."""
    code, said = fuzz(tmp_path, "--phases", "coverage,fuzzing", "--max-examples", "5", "--generation-deterministic")

    assert code == 0, said
    routes = len(EVERY_ROUTE) - 2 + len(VERBS)  # all but the description itself, and each verb of the ledger
    assert f"Operations:       {routes} selected" in said
