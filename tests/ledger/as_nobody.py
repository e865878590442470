"""One command of planrun, as a user without rights.

python as_nobody.py FOLDER ARGUMENT…

Everything is imported and tried once as root: what an unprivileged user may not read may include Python itself.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from functools import cache
from pathlib import Path

from planrun.cli import check
from planrun.cli.app import run
from planrun.worker.isolation import probe

NOBODY = 65_534


def main(folder: Path, *tokens: str) -> int:
    url = str(folder / "rehearsal.db")
    vars(check)["probe"] = cache(probe)  # it starts Python
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        run(["submit", "preview", "--url", url])
        run([*tokens, "--url", url])
        run(["check", "--url", url])
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    return run(tokens)


sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
