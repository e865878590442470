"""What the reference lists by hand is what the source says: environment variables, codes of failures, events."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from planrun.core.history import MEANINGS, What
from planrun.core.life import Outcome, Reason
from tests.tidy.tree import SOURCE, dotted, parsed, python, shown, texts

VARIABLE = re.compile(r"\bPLANRUN_[A-Z_]+\b")
CODE = re.compile(r"`([a-z]+(?:-[a-z]+)*)`")
INSERT = re.compile(r"\bINSERT\s+INTO\s+event\b", re.IGNORECASE)


def listed(page: str, heading: str) -> str:
    """The first column of the tables below a heading of a page of the reference."""
    section = texts(".md")[f"docs/reference/{page}"].partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| `")]
    return "\n".join(rows)


def calls(name: str) -> Iterator[tuple[str, ast.Call]]:
    """Every call of a function in the source, and where it stands."""
    for path in python(SOURCE):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Call) and dotted(node.func) == name:
                yield f"{shown(path)}:{node.lineno}", node


def codes() -> set[str]:
    """Codes of failures: written as `code=`, as the third part of a `Described`, or as the first of a cause."""
    found: set[object] = set()
    for path in python(SOURCE):
        for node in ast.walk(parsed(path)):
            match node:
                case ast.keyword(arg="code", value=ast.Constant(value=code)):
                    found.add(code)
                case ast.Call(func=ast.Name(id="Described"), args=[_, _, ast.Constant(value=code)]):
                    found.add(code)
                case ast.Return(value=ast.Tuple(elts=[ast.Constant(value=code), _])) if path.name == "exits.py":
                    found.add(code)
    return {code for code in found if isinstance(code, str) and code}


def test_every_environment_variable_is_listed_and_none_besides() -> None:
    sources = [text for name, text in texts(".py").items() if "src/" in name]
    read = {variable for text in sources for variable in VARIABLE.findall(text)}

    assert set(VARIABLE.findall(listed("config.md", "Environment variables"))) == read


def test_every_code_of_a_failure_is_listed_and_none_besides() -> None:
    template = "bad-steps"  # in the module that `planrun new` writes

    assert set(CODE.findall(listed("errors.md", "Codes of failed attempts"))) == codes() - {template}


def test_no_event_is_written_that_is_not_in_the_table() -> None:
    """The type of `note` lets only a `What` through; here: nobody gets around it."""
    loose = [
        where
        for where, call in calls("note")
        if not (dotted(call.args[2]).startswith("What.") or ast.unparse(call.args[2]).startswith("What("))
    ]
    inserts = [name for name, text in texts(".sql", ".py").items() if name.startswith("src/") and INSERT.search(text)]
    writers = [name for name, text in texts(".py").items() if name.startswith("src/") and '"insert_event"' in text]

    assert list(calls("note"))
    assert loose == []
    assert inserts == ["src/planrun/ledger/sql/sqlite/insert_event.sql"]
    assert writers == ["src/planrun/ledger/verbs/history.py"]


def test_every_event_is_explained_and_every_end_is_an_event() -> None:
    ends = {str(outcome) for outcome in Outcome} | {Reason.UNSUPPORTED, Reason.DEADLINE}

    assert list(MEANINGS) == list(What)
    assert ends <= set(What)
