"""The repository speaks of planrun alone, not of how or where it came to be written."""

from __future__ import annotations

import re

from tests.tidy.tree import texts

# In pieces, so that this file passes its own rule.
FOREIGN = re.compile(
    "|".join(
        [
            r"(?<![\w./])/wor" + r"k/",
            r"\.\./share" + "d/",
            r"/tmp/brie" + "fs",
            r"\bA" + r"I (agent|assistant)s?\b",
            r"\bcoding agen" + r"ts?\b",
            r"\bsub-?agen" + r"ts?\b",
            r"\blanguage model (wrote|session)",
            r"\bthe (lea" + r"d|brie" + r"f) (says|asks|merges)",
            r"\bCo-Authored-" + "By",
            r"\bas of this sessio" + "n",
        ]
    ),
    re.IGNORECASE,
)


def test_no_file_speaks_of_the_workplace() -> None:
    found = [
        f"{name}:{number}: {line.strip()[:80]}"
        for name, text in texts().items()
        for number, line in enumerate(text.splitlines(), start=1)
        if FOREIGN.search(line)
    ]

    assert found == []
