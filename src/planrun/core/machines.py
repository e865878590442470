"""Classes of machines that an operator declares: what the fleet can do even while none of them is up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planrun.core.errors import Invalid
from planrun.core.messages import Handler, Struct, WorkerRow
from planrun.core.spelling import CAPABILITY_RULE, NAME_RULE, is_capability, is_name

EXAMPLE = 'kinds = ["preview v1"]'


class MachineClass(Struct, kw_only=True):
    """Attributes:
    kinds: What such a machine runs: `preview v1`.
    """

    name: str
    kinds: tuple[str, ...]
    namespaces: tuple[str, ...] = ("default",)
    capabilities: tuple[str, ...] = ()

    def as_worker(self, now_ms: int) -> WorkerRow:
        """A worker of this class that was seen just now, with no slot."""
        handlers = tuple(Handler(kind=kind, version=version) for kind, version in map(str.split, self.kinds))
        return WorkerRow(
            incarnation=f"class {self.name}",
            name=self.name,
            host="",
            namespaces=self.namespaces,
            slots=0,
            capabilities=self.capabilities,
            handlers=handlers,
            seen_at_ms=now_ms,
        )


def classes_of(table: Mapping[str, Any]) -> tuple[MachineClass, ...]:
    """Read the classes of a fleet file: a table for each, as TOML gives it.

    Raises:
        Invalid: In one line, naming the class.
    """
    return tuple(_class(name, given) for name, given in table.items())


def _class(name: str, given: Any) -> MachineClass:
    if not is_name(name):
        raise Invalid(f"class {name!r}: use {NAME_RULE}")
    if not isinstance(given, Mapping):
        raise Invalid(f"class {name}: write it as a table: [{name}], and below it {EXAMPLE}")
    if strange := sorted(set(given) - {"kinds", "namespaces", "capabilities"}):
        raise Invalid(f"class {name} has {strange[0]!r}; there are kinds, namespaces and capabilities")
    kinds = _texts(name, "kinds", given.get("kinds", []))
    if not kinds:
        raise Invalid(f"class {name} runs nothing; write {EXAMPLE}")
    for kind in kinds:
        if len(kind.split()) != 2 or not all(map(is_name, kind.split())):
            raise Invalid(f"class {name}: {kind!r} is not a kind and its version; write {EXAMPLE}")
    namespaces = _texts(name, "namespaces", given.get("namespaces", ["default"]))
    capabilities = _texts(name, "capabilities", given.get("capabilities", []))
    for namespace in namespaces:
        if not is_name(namespace):
            raise Invalid(f"class {name}: namespace {namespace!r}: use {NAME_RULE}")
    for capability in capabilities:
        if not is_capability(capability):
            raise Invalid(f"class {name}: capability {capability!r}: use {CAPABILITY_RULE}")
    return MachineClass(name=name, kinds=kinds, namespaces=namespaces, capabilities=capabilities)


def _texts(name: str, what: str, given: Any) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(text, str) for text in given):
        raise Invalid(f'class {name}: {what} is a list of texts, such as {what} = ["…"]')
    return tuple(given)
