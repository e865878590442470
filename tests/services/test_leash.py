"""What a test has started does not outlive it, even if it is killed."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from tests.lab import ROOT

PATIENCE_S = 60.0
STARTS = """
import subprocess, sys, time
from deploy.local.leash import Leash
shell = ["sh", "-c", "sleep 600 & echo $$ $!; wait"]
process = subprocess.Popen(shell, stdout=subprocess.PIPE, text=True, start_new_session=True)
Leash(process, sys.argv[1])
print(process.stdout.readline(), flush=True)  # only now: until here nobody sees to its end
time.sleep(600)
"""


def test_a_service_whose_test_was_killed_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    folder = tmp_path / "service"
    folder.mkdir()
    command = [sys.executable, "-c", STARTS, str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        pids = [int(word) for word in starter.stdout.readline().split()]
        assert all(map(is_alive, pids))
        starter.kill()

    deadline = time.monotonic() + PATIENCE_S
    while any(map(is_alive, pids)) or folder.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Zombies are dead: whoever is their parent by now may not care."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
