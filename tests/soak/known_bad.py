"""Builds without one guard of the protocol: the simulator finds each, and in how many histories is said."""

from __future__ import annotations

from tests.sim import known_bad


def main(minutes: float | None = None) -> int:
    return known_bad.main(seeds_max=known_bad.SEEDS_MAX if minutes is None else round(100 * minutes))
