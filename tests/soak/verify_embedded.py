"""`planrun verify` for ten minutes on a ledger that is a file: nothing lost, doubled or overwritten."""

from __future__ import annotations

import subprocess
import sys
import tempfile

MINUTES = 10.0


def main(minutes: float | None) -> int:
    with tempfile.TemporaryDirectory(prefix="planrun-soak-") as folder:
        command = [sys.executable, "-m", "planrun.cli", "verify", "--minutes", f"{minutes or MINUTES:g}"]
        return subprocess.run([*command, "--url", "sqlite:///planrun.db"], cwd=folder, check=False).returncode
