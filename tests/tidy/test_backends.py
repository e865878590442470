"""A concrete ledger, store or transport is named in `wiring.py` alone; everybody else knows the contract."""

from __future__ import annotations

from tests.tidy.tree import ROOT, SOURCE, imported, module_name, parsed, python, shown

SEAMS = ("ledger", "storage", "transport")
CONTRACTS = ("contract", "chronicle", "fleet", "hands", "keyring", "wire")  # the ports, and how one of them travels
RULES = ("beating", "hearing", "intake")  # what every end of a broker does, whatever the broker: a model of one, too
NAMER = "planrun.wiring"


def backend_of(name: str) -> str | None:
    """The seam whose backend this is, if it is one."""
    for seam in SEAMS:
        inside = name.removeprefix(f"planrun.{seam}.")
        if inside != name and inside.split(".")[0] not in CONTRACTS + RULES:
            return seam
    return None


def test_only_wiring_names_a_backend() -> None:
    found = []
    for path in python(SOURCE):
        own = module_name(path, ROOT / "src")
        for name, line in imported(parsed(path), own if path.stem == "__init__" else own.rpartition(".")[0]):
            seam = backend_of(name)
            if seam is not None and own != NAMER and not own.startswith(f"planrun.{seam}"):
                found.append(f"{shown(path)}:{line}: {name}")

    assert found == []
