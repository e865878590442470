"""JSON schemas of the structs, for the documents that describe an interface: each field with its docstring's words."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any

import msgspec

REF = "#/components/schemas/{name}"
FIELD = re.compile(r"([a-z_]+(?:, [a-z_]+)*): (.*)")


def schemas_of(kinds: Iterable[type[msgspec.Struct]], *, types: Iterable[Any] = ()) -> dict[str, Any]:
    """By name: these, and those that they, and other types, are made of."""
    structs = sorted(kinds, key=lambda kind: kind.__name__)
    _, schemas = msgspec.json.schema_components([*structs, *types], ref_template=REF)
    for kind in structs:
        _explain(schemas, kind)
    return schemas


def shape_of(kind: Any) -> dict[str, Any]:
    """Of any type; structs are named."""
    (shape,), _ = msgspec.json.schema_components([kind], ref_template=REF)
    if "prefixItems" in shape:  # not every reader of OpenAPI knows tuples by place
        shape["items"] = {"anyOf": shape.pop("prefixItems")}
    return shape


def _explain(schemas: dict[str, Any], kind: type[msgspec.Struct]) -> None:
    """Docstrings to where a reader of the document looks for them: each field's own words beside it."""
    schema = schemas[kind.__name__]
    about = inspect.cleandoc(kind.__doc__ or "").partition("Attributes:")[0].strip()
    schema.pop("description", None)
    if about:
        schema["description"] = about
    names = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
    for field, words in _field_words(kind).items():
        if field in names:
            schema["properties"][names[field]]["description"] = words


def _field_words(kind: type) -> dict[str, str]:
    words: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        section = inspect.cleandoc(base.__doc__ or "").partition("Attributes:")[2] if "__doc__" in vars(base) else ""
        fields: list[str] = []
        for line in inspect.cleandoc(section).splitlines():
            if (found := FIELD.match(line)) is not None:
                fields = found[1].split(", ")
                words |= dict.fromkeys(fields, found[2])
            else:
                words |= {field: f"{words[field]} {line.strip()}".strip() for field in fields}
    return words
