"""What was loaded for the tests is not looked through again after each history."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def loaded_stays() -> Iterator[None]:
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
