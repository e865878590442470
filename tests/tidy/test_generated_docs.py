"""The generated parts of the documents are what the code says today."""

from __future__ import annotations

import subprocess
import sys

from tests.tidy.tree import ROOT


def test_the_generated_parts_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "docs/generate.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout) == (0, "")
