"""A plan written as a test: what a failing seed came down to, to be pasted into `tests/sim`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from enum import Enum
from typing import Any

from planrun.sim.faults import Plan
from planrun.sim.jobs import Deed
from planrun.sim.settings import Order, Settings

IMPORTS = (
    ("planrun.core.life", ("Outcome",)),
    ("planrun.sim.jobs", ("Deed",)),
    ("planrun.sim.settings", ("Mode", "Order", "Settings", "deeds")),
    ("planrun.sim.world", ("World",)),
)


def script_of(plan: Plan, rule: str = "") -> str:
    """The test whose history is that of the plan.

    Args:
        rule: Which rule it breaks: a part of the test's name.
    """
    settings = [f"    {text},\n" for text in _details(plan.settings, but=("deed_of",))]
    if plan.table:
        table = "".join(f"        {key}: {_said(deed)},\n" for key, deed in sorted(plan.table.items()))
        settings.append(f"    deed_of=deeds({{\n{table}    }}),\n")
    acts = "".join(f"        world.{act}\n" for act in plan.acts)
    name = f"test_seed_{plan.seed}{f'_breaks_{rule.lower()}' if rule else ''}"
    body = (
        f"SETTINGS = Settings(\n{''.join(settings)})\n\n\ndef {name}() -> None:\n"
        f"    with World({plan.seed}, SETTINGS) as world:\n{acts}        world.run()\n\n"
        "    assert world.checks.violations == []\n"
    )
    return f"{_imports(body)}\n{body}"


def _imports(body: str) -> str:
    lines = []
    for module, names in IMPORTS:
        if used := [name for name in names if re.search(rf"\b{name}\b", body)]:
            lines.append(f"from {module} import {', '.join(used)}\n")
    return "".join(lines)


def plain(field: Field[Any]) -> Any:
    """What a field is when nobody says otherwise."""
    return field.default_factory() if field.default_factory is not MISSING else field.default


def differing(thing: Order | Deed | Settings) -> Iterator[str]:
    """The fields of a thing that are not as they are when nobody says otherwise."""
    for field in fields(thing):
        value = getattr(thing, field.name)
        if value != plain(field) and not (isinstance(thing, Order) and value == f"job-{thing.n}"):
            yield field.name


def _details(thing: Order | Deed | Settings, but: tuple[str, ...] = ()) -> list[str]:
    return [f"{name}={_said(getattr(thing, name))}" for name in differing(thing) if name not in but]


def _said(value: Any) -> str:
    match value:
        case Enum():
            return f"{type(value).__name__}.{value.name}"
        case Order() | Deed():
            return f"{type(value).__name__}({', '.join(_details(value))})"
        case tuple():
            return f"({', '.join(map(_said, value))}{',' if len(value) == 1 else ''})"
        case _:
            return repr(value)
