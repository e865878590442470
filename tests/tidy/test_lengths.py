"""A file is a paragraph: 400 lines at most; a function, docstring aside, 60. What is longer is split along a noun."""

from __future__ import annotations

import ast

from tests.tidy.tree import parsed, python, shown

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60

# Exceptions with their present length. A ratchet: they may shrink, never grow, and nothing joins without a reason.
LONGER: dict[str, int] = {}


def lengths() -> dict[str, tuple[int, int]]:
    """Everything with a limit: how long it is, and the limit."""
    found = {}
    for path in python():
        found[shown(path)] = (len(path.read_text("utf-8").splitlines()), FILE_LINES_MAX)
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
                lines = node.end_lineno - node.lineno + 1 - docstring_lines(node)
                found[f"{shown(path)}:{node.name}"] = (lines, FUNCTION_LINES_MAX)
    return found


def docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return len((ast.get_docstring(node, clean=False) or "").splitlines())


def test_files_and_functions_are_short_enough() -> None:
    too_long = [
        f"{name} has {lines} lines, at most {LONGER.get(name, limit)}"
        for name, (lines, limit) in lengths().items()
        if lines > LONGER.get(name, limit)
    ]

    assert too_long == []


def test_an_exception_goes_when_it_is_not_needed() -> None:
    measured = lengths()
    stale = [name for name in LONGER if name not in measured or measured[name][0] <= measured[name][1]]

    assert stale == []
