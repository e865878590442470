from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.services.postgres import Postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """Whoever stops it starts it again."""
    postgres = Postgres()
    try:
        postgres.start()
        yield postgres
    finally:
        postgres.remove()
