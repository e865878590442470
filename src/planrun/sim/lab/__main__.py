"""Runs in a process of its own: settings as lines of JSON on the standard input, histories on the standard output."""

from __future__ import annotations

import os
import sys

import msgspec

from planrun.sim.lab.run import run
from planrun.sim.lab.settings import Settings

POLITE = 5  # jobs go first

if __name__ == "__main__":
    os.nice(POLITE)
    for line in sys.stdin.buffer:
        history = run(msgspec.json.decode(line, type=Settings))
        sys.stdout.buffer.write(msgspec.json.encode(history) + b"\n")
        sys.stdout.buffer.flush()
