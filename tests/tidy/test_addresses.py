"""No file names the place that packages are downloaded from: that belongs to the machine, not to the repository."""

from __future__ import annotations

import re

from tests.tidy.tree import texts

# Written in pieces, so that this file does not name them either.
HOSTS = ["pypi" + ".org", "python" + "hosted.org", "registry.npm" + "js.org", "crates" + ".io", "proxy.golang" + ".org"]
OPTION = re.compile(r"--(index|extra-index|find)-(url|links)[ =]\S")


def test_no_file_names_a_registry() -> None:
    found = [f"{name}: {host}" for name, text in texts().items() for host in HOSTS if host in text]

    assert found == []


def test_no_file_points_pip_somewhere() -> None:
    found = [name for name, text in texts().items() if OPTION.search(text)]

    assert found == []


def test_the_requirements_are_pinned_by_digest() -> None:
    entries = texts(".txt")["requirements/dev.txt"].replace("\\\n", " ").splitlines()
    loose = [entry for entry in entries if entry and not entry.startswith("#") and "--hash=sha256:" not in entry]

    assert loose == []
