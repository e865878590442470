"""The public names of planrun: twenty at most, listed once, and each to be had."""

from __future__ import annotations

import importlib
import importlib.util

import planrun

NAMES_MAX = 20


def test_the_public_names_are_few_and_sorted() -> None:
    assert len(planrun.__all__) <= NAMES_MAX
    assert planrun.__all__ == sorted(set(planrun.__all__))


def test_every_public_name_has_a_home_and_nothing_else_has() -> None:
    assert sorted(planrun._HOMES) == planrun.__all__


def test_every_public_name_resolves() -> None:
    lost = [name for name, home in planrun._HOMES.items() if not hasattr(importlib.import_module(home), name)]

    assert lost == []
