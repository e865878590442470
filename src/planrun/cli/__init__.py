"""The command line: `planrun VERB …`.

Reading order: `app` (the verbs), `exits` (what the shell sees), then a file per verb.
"""

from __future__ import annotations

import sys

from planrun.cli.app import run


def main() -> None:
    """Entry point of the `planrun` script."""
    sys.exit(run(sys.argv[1:]))
