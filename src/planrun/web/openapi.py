"""The OpenAPI document, made of the table of routes and of the types that it names. Nothing is said twice by hand."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import msgspec

from planrun.core.problems import Problem
from planrun.core.shapes import REF, schemas_of, shape_of
from planrun.ledger.contract import Ledger
from planrun.ledger.wire import VERBS
from planrun.web.problems import Fault
from planrun.web.routes import TEXT, Route

PLACE = re.compile(r"{([a-z_]+)}")
IN = {"query": "query", "headers": "header"}
PLACES = {
    "job": "Job id, or the request id of its submit.",
    "output": "Name of an output, as the answer has it.",
    "verb": "Name of a verb of the ledger.",
}


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """All of it, as plain data."""
    structs = {kind for route in routes for kind in _structs(route)} | {Problem}
    schemas = schemas_of(structs, types=[verb.reply for verb in VERBS.values()])
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        for path, operation in _operations(route, schemas):
            paths.setdefault(path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "planrun",
            "version": version("planrun"),
            "description": "Long jobs that finish exactly once. Every error has a `detail` that says what to do.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Each operation names the scope that the token must have. No token is asked for "
                    "where none was ever made.",
                }
            },
        },
    }


def summary_of(route: Route) -> str:
    """The first sentences of what its function says of itself."""
    return (inspect.getdoc(route.function) or "").partition("\n")[0]


def _structs(route: Route) -> Iterable[type[msgspec.Struct]]:
    yield from route.takes.values()
    if "{verb}" in route.path:
        yield from (verb.asked for verb in VERBS.values())
    for body in route.replies.values():
        if isinstance(body, type):
            yield body


def _operations(route: Route, schemas: Mapping[str, Any]) -> Iterable[tuple[str, dict[str, Any]]]:
    """With their paths: one, or one for each verb of the ledger."""
    operation = _operation(route, schemas)
    if "{verb}" not in route.path:
        yield route.path, operation
        return
    for verb in VERBS.values():
        about = inspect.getdoc(getattr(Ledger, verb.name)) or operation["description"]
        shape = {"description": "its answer", "content": {"application/json": {"schema": shape_of(verb.reply)}}}
        yield (
            route.path.replace("{verb}", verb.name),
            {
                **operation,
                "operationId": f"ledger_{verb.name}",
                "summary": about.partition("\n")[0],
                "description": about,
                "parameters": [each for each in operation["parameters"] if each["name"] != "verb"],
                "requestBody": _body(verb.asked, schemas),
                "responses": {**operation["responses"], "200": shape},
                "security": [{}, {"token": [str(scope) for scope in verb.scopes]}],
            },
        )


def _operation(route: Route, schemas: Mapping[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.function.__name__,
        "summary": summary_of(route),
        "description": inspect.getdoc(route.function) or "",
        "parameters": [
            *(
                {
                    "name": name,
                    "in": "path",
                    "required": True,
                    "description": PLACES[name],
                    "schema": {"type": "string"},
                }
                for name in PLACE.findall(route.path)
            ),
            *(
                {
                    "name": name,
                    "in": IN[where],
                    "required": False,
                    "description": schema.pop("description", ""),
                    "schema": schema,
                }
                for where, kind in route.takes.items()
                if where in IN
                for name, schema in _properties(schemas, kind)
            ),
        ],
        "responses": {
            **{str(status): _response(body) for status, body in route.replies.items()},
            **{str(status): _problem(faults) for status, faults in _by_status(route.all_faults).items()},
        },
        "security": [{}] if route.scope is None else [{}, {"token": [str(route.scope)]}],
    }
    if (body := route.takes.get("body")) is not None:
        operation["requestBody"] = _body(body, schemas)
    return operation


def _body(body: type[msgspec.Struct], schemas: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "required": bool(schemas[body.__name__].get("required")),
        "content": {"application/json": {"schema": {"$ref": REF.format(name=body.__name__)}}},
    }


def _properties(schemas: Mapping[str, Any], kind: type[msgspec.Struct]) -> Iterable[tuple[str, dict[str, Any]]]:
    for name, schema in schemas[kind.__name__]["properties"].items():
        # What is not sent is absent: null cannot be written in a query or a header.
        choices = [choice for choice in schema.get("anyOf", []) if choice != {"type": "null"}]
        plain = {**schema, **choices[0]} if choices else dict(schema)
        plain.pop("anyOf", None)
        if plain.get("default", ...) is None:
            plain.pop("default")
        yield name, plain


def _response(body: type[msgspec.Struct] | str | None) -> dict[str, Any]:
    if body is None:
        return {"description": "no body"}
    if isinstance(body, str):
        schema = {"type": "string"} if body == TEXT else {}
        return {"description": body, "content": {body: {"schema": schema}}}
    schema = {"$ref": REF.format(name=body.__name__)}
    return {"description": body.__name__, "content": {"application/json": {"schema": schema}}}


def _by_status(faults: Iterable[Fault]) -> dict[int, list[Fault]]:
    found: dict[int, list[Fault]] = {}
    for fault in faults:
        found.setdefault(fault.status, []).append(fault)
    return found


def _problem(faults: Iterable[Fault]) -> dict[str, Any]:
    return {
        "description": "; ".join(f"{fault.slug}: {fault.title}" for fault in faults),
        "content": {"application/problem+json": {"schema": {"$ref": REF.format(name=Problem.__name__)}}},
    }
