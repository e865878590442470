"""A tenant that brings jobs imports `planrun.jobs` and nothing else of planrun: that is all an outside team has."""

from __future__ import annotations

from pathlib import Path

from tests.tidy.tree import ROOT, imported, module_name, parsed, python, shown

TENANTS = ROOT / "tenants"

# An application that submits, and renders nothing itself, imports the client instead.
ALLOWED = {"everyframe": "planrun.client"}


def sources() -> list[tuple[Path, Path]]:
    """Every module of every tenant, with the source folder that it lies in. Their tests may import what they like."""
    return [
        (path, source) for source in sorted(TENANTS.glob("*/src")) for path in python(TENANTS) if source in path.parents
    ]


def test_a_tenant_imports_its_one_door() -> None:
    found = []
    for path, source in sources():
        door = ALLOWED.get(source.parent.name, "planrun.jobs")
        package = module_name(path, source)
        for name, line in imported(parsed(path), package if path.stem == "__init__" else package.rpartition(".")[0]):
            inside = name == "planrun" or name.startswith("planrun.")
            if inside and name != door and not name.startswith(f"{door}."):
                found.append(f"{shown(path)}:{line}: {name}, allowed is {door}")

    assert found == []
