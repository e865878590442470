"""One term, one meaning: docs/glossary.md says which. Some words stand for none of them."""

from __future__ import annotations

import re
from itertools import pairwise

from tests.tidy.tree import identifiers, parsed, python, shown

BANNED = {
    "common": "say what the things in it are",
    "helper": "say what it does",
    "helpers": "say what they do",
    "manager": "say what it decides or keeps",
    "master": "orchestrator",
    "retrycount": "failures, losses or handbacks; the attempt is a fence",
    "slave": "worker",
    "util": "say what it does",
    "utils": "say what they do",
    "zombie": "stale attempt, or lost worker",
}
# Names that somebody else gave.
FOREIGN = {"_MS_SLAVE": "the kernel's name of a mount flag"}
WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def banned_in(name: str) -> list[str]:
    words = [word.lower() for word in WORDS.findall(name)]
    pairs = [first + second for first, second in pairwise(words)]
    return [word for word in (*words, *pairs) if word in BANNED]


def test_no_identifier_uses_a_banned_word() -> None:
    found = [
        f"{shown(path)}:{line}: {name}: instead of {word}, {BANNED[word]}"
        for path in python()
        for name, line in identifiers(parsed(path))
        if name not in FOREIGN
        for word in banned_in(name)
    ]

    assert found == []


def test_no_module_is_named_with_a_banned_word() -> None:
    found = [f"{shown(path)}: {BANNED[word]}" for path in python() for word in banned_in(path.stem)]

    assert found == []


def test_the_rule_sees_words_however_they_are_joined() -> None:
    assert banned_in("retry_count") == banned_in("RetryCount") == ["retrycount"]
    assert banned_in("JobManager") == ["manager"]
    assert banned_in("utilisation") == []
