"""Every command and option that a document tells people to type exists, and every example in Python is Python."""

from __future__ import annotations

import ast
import re

from planrun.cli.app import VERBS, build_app
from tests.tidy.tree import ROOT, texts

SHELL = re.compile(r"^```(?:sh|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
TARGET = re.compile(r"^([a-z-]+):", re.MULTILINE)
IN_PROSE = re.compile(r"`(--[a-z][a-z-]*)")
IN_COMMAND = re.compile(r"\bplanrun [a-z].*")
OPTION = re.compile(r"(?<!\S)--[a-z][a-z-]*")


def commands(program: str) -> set[tuple[str, str]]:
    """(document, first argument) of every call of a program in a block of commands."""
    call = re.compile(rf"(?:^|[;&|(] *)(?:\$ )?{program} ([a-z][a-z-]*)", re.MULTILINE)
    return {
        (name, argument)
        for name, text in texts(".md").items()
        for block in SHELL.findall(text)
        for argument in call.findall(block)
    }


def options_in_docs() -> set[tuple[str, str]]:
    """(document, option): named alone in prose, or written in a call of planrun."""
    found = set()
    for name, text in texts(".md").items():
        written = IN_PROSE.findall(text)
        for call in IN_COMMAND.findall(text):
            written += OPTION.findall(call)
        found |= {(name, option) for option in written}
    return found


def options_of_planrun() -> set[str]:
    app = build_app()
    return {
        option for verb in VERBS for argument in app[verb].assemble_argument_collection() for option in argument.names
    }


def test_every_make_target_in_the_docs_exists() -> None:
    targets = set(TARGET.findall((ROOT / "Makefile").read_text("utf-8")))
    unknown = [f"{name}: make {target}" for name, target in commands("make") if target not in targets]

    assert commands("make")
    assert unknown == []


def test_every_planrun_verb_in_the_docs_exists() -> None:
    unknown = [f"{name}: planrun {verb}" for name, verb in commands("planrun") if verb not in VERBS]

    assert commands("planrun")
    assert unknown == []


def test_every_option_in_the_docs_exists() -> None:
    known = options_of_planrun()
    unknown = [f"{name}: {option}" for name, option in sorted(options_in_docs()) if option not in known]

    assert options_in_docs()
    assert unknown == []


def test_every_python_example_can_be_parsed() -> None:
    broken = []
    for name, text in texts(".md").items():
        for block in PYTHON.findall(text):
            try:
                ast.parse(block.replace("…", "..."))
            except SyntaxError as error:
                broken.append(f"{name}: {error}")

    assert broken == []
