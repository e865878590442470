"""Known-bad builds: each edit still fits the code, and one of them is found here. `make soak SCRIPT=known_bad`: all."""

from __future__ import annotations

import pytest

from tests.guards.copies import SOURCE
from tests.sim.known_bad import BUILDS, Build, look_at


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.name)
def test_what_is_taken_down_stands_once_in_the_code(build: Build) -> None:
    counts = {file: (SOURCE / file).read_text().count(old) for file, old, _ in build.edits}

    assert set(counts.values()) == {1}, counts


def test_a_late_upload_under_one_key_per_job_is_found() -> None:
    builds = [build for build in BUILDS if build.name == "a late upload under one key per job"]
    [found] = look_at(builds, seeds_max=40, at_once=1)

    assert found.is_right, found
