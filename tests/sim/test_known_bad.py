"""Known-bad builds: each edit still fits the code, and those that break often are found here.

`make soak SCRIPT=known_bad` finds all of them.
"""

from __future__ import annotations

import pytest

from tests.guards.copies import SOURCE
from tests.sim.bad_builds import BUILDS, Build
from tests.sim.known_bad import look_at

OFTEN = (
    "the same attempt again",
    "a late upload under one key per job",
    "settled before it is uploaded",
    "a collector that does not ask who won",
)


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.name)
def test_what_is_taken_down_stands_once_in_the_code(build: Build) -> None:
    counts = {file: (SOURCE / file).read_text().count(old) for file, old, _ in build.edits}

    assert set(counts.values()) == {1}, counts


def test_what_breaks_often_is_found_within_twenty_histories() -> None:
    often = [build for build in BUILDS if build.name in OFTEN]
    founds = list(look_at(often, seeds_max=20, at_once=1))

    assert len(founds) == len(OFTEN)
    assert [found for found in founds if not found.is_right] == []
