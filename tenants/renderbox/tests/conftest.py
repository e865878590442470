from __future__ import annotations

from pathlib import Path

import pytest

from media import bars


@pytest.fixture(scope="session")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three seconds of moving bars with a tone. Never written to."""
    return bars(tmp_path_factory.mktemp("media") / "short.mp4")


@pytest.fixture(scope="session")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten seconds of the same, index in front."""
    return bars(tmp_path_factory.mktemp("media") / "long.mp4", seconds=10, codec=("-movflags", "+faststart"))
