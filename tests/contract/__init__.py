"""Suites that every backend of a port runs."""

from pathlib import Path

import pytest

SUITES = [*sorted(path.stem for path in Path(__file__).parent.glob("*_contract.py")), "ledger_story"]
pytest.register_assert_rewrite(*(f"{__name__}.{suite}" for suite in SUITES))
