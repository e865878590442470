"""Every command that a document tells people to type exists."""

from __future__ import annotations

import re

from planrun.cli.app import VERBS
from tests.tidy.tree import ROOT, texts

BLOCK = re.compile(r"^```(?:sh|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
TARGET = re.compile(r"^([a-z]+):", re.MULTILINE)


def commands(program: str) -> set[tuple[str, str]]:
    """(document, first argument) of every call of a program in a block of commands."""
    call = re.compile(rf"(?:^|[;&|(] *)(?:\$ )?{program} ([a-z][a-z-]*)", re.MULTILINE)
    return {
        (name, argument)
        for name, text in texts(".md").items()
        for block in BLOCK.findall(text)
        for argument in call.findall(block)
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
