"""`planrun verify` for ten minutes on a ledger that is a file holds; on a store that is tampered with it does not."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from planrun import Client

MINUTES = 10.0
SHORT = 0.1
VERIFY = [sys.executable, "-m", "planrun.cli", "verify", "--url", "sqlite:///planrun.db", "--minutes"]


def tampered(folder: Path) -> dict[str, Any]:
    """A short run during which one stored file gets other bytes, and one vanishes. What it said."""
    run = subprocess.Popen([*VERIFY, f"{SHORT:g}", "--json"], cwd=folder, stdout=subprocess.PIPE, text=True)
    with Client(f"sqlite:///{folder}/planrun.db") as client:
        while len(jobs := client.list(state="finished").jobs) < 2:
            assert run.poll() is None
            time.sleep(0.05)
        changed, removed = (client.result(job.job_id).outputs["out"].path for job in jobs[:2])
    changed.chmod(0o644)
    changed.write_bytes(b"not what was announced")
    removed.unlink()
    out, _ = run.communicate()
    assert run.returncode == 1, out
    said: dict[str, Any] = json.loads(out)
    return said


def main(minutes: float | None) -> int:
    with tempfile.TemporaryDirectory(prefix="planrun-soak-") as folder:
        code = subprocess.run([*VERIFY, f"{minutes or MINUTES:g}"], cwd=folder, check=False).returncode
    with tempfile.TemporaryDirectory(prefix="planrun-soak-") as folder:
        said = tampered(Path(folder))
    print(f"tampered with: {said['verdict']}", flush=True)
    return code if (said["count"]["overwritten"], said["count"]["lost"]) == (1, 1) else 1
