"""Links lead somewhere, documents that the source names exist, and every document can be reached from the index."""

from __future__ import annotations

import re
from pathlib import Path

from tests.tidy.tree import ROOT, files, shown, texts

LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(#[^)\s]*)?\)")
HEADING = re.compile(r"^#+ +(.+?)\s*$", re.MULTILINE)
NAMED = re.compile(r"\bdocs/[\w/-]+\.md")
INDEX = ROOT / "docs" / "README.md"


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(path: Path) -> set[str]:
    """The fragments of a document's headings, as forges make them."""
    headings = HEADING.findall(without_code(path.read_text("utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(path: Path) -> list[tuple[Path, str]]:
    found = LINK.findall(without_code(path.read_text("utf-8")))
    return [((path.parent / target).resolve() if target else path, fragment) for target, fragment in found]


def test_every_link_leads_somewhere() -> None:
    broken = [
        f"{shown(path)} → {target.name}{fragment}"
        for path in files(".md")
        for target, fragment in links(path)
        if not target.exists() or (fragment and target.suffix == ".md" and fragment[1:] not in anchors(target))
    ]

    assert broken == []


def test_every_document_is_listed_in_the_index() -> None:
    listed = {target for target, _ in links(INDEX)}
    missing = [
        shown(path) for path in files(".md") if path.is_relative_to(INDEX.parent) and path not in listed | {INDEX}
    ]

    assert missing == []


def test_every_document_that_the_source_names_exists() -> None:
    named = {(name, path) for name, text in texts(".py", ".sql").items() for path in NAMED.findall(text)}
    missing = [f"{name}: {path}" for name, path in sorted(named) if not (ROOT / path).exists()]

    assert named
    assert missing == []
