"""Run one of the long runs, or all, each in a process of its own, and print how they ended."""

from __future__ import annotations

import argparse
import ast
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
CALL = "import importlib, sys; m = importlib.import_module(sys.argv[1]); sys.exit(m.main({minutes}))"
FULL_MINUTES_MAX = 120.0
TIMED_OUT = 124


def scripts() -> dict[str, str]:
    """The names of the long runs, and what each shows."""
    found = {}
    for path in sorted(HERE.glob("[a-z]*.py")):
        about = ast.get_docstring(ast.parse(path.read_text())) or ""
        found[path.stem] = about.partition("\n")[0]
    return found


def run(name: str, minutes: float | None) -> int:
    """Run one to its end, at most twice the asked length and five minutes more. Returns its exit code."""
    limit_s = 60 * (FULL_MINUTES_MAX if minutes is None else 2 * minutes + 5)
    command = [sys.executable, "-c", CALL.format(minutes=minutes), f"tests.soak.{name}"]
    child = subprocess.Popen(command, cwd=HERE.parent.parent, start_new_session=True)
    try:
        return child.wait(timeout=limit_s)
    except subprocess.TimeoutExpired:
        print(f"{name}: stopped after {limit_s / 60:.0f} min", flush=True)
        return TIMED_OUT
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def main() -> int:
    known = scripts()
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("name", nargs="?", help="one of them, or all; without it they are listed")
    parser.add_argument("--minutes", type=float, help="a sample of about that length, shared out evenly")
    asked = parser.parse_args()
    if asked.name is None:
        print("\n".join(f"{name:24} {about}" for name, about in known.items()))
        return 0
    if asked.name != "all" and asked.name not in known:
        parser.error(f"there is no {asked.name}; there is: all, {', '.join(known) or 'nothing yet'}")
    names = list(known) if asked.name == "all" else [asked.name]
    if not names:
        parser.error("there is nothing to run yet")
    share = None if asked.minutes is None else asked.minutes / len(names)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # takes the running one along

    ended: list[tuple[str, int, float]] = []
    for name in names:
        print(f"--- {name}: {known[name]}", flush=True)
        began_s = time.monotonic()
        code = run(name, share)
        ended.append((name, code, time.monotonic() - began_s))
    for name, code, took_s in ended:
        print(f"{name:24} {'held' if code == 0 else f'exit {code}':10} {took_s:7.0f} s")
    print(f"{sum(code == 0 for _, code, _ in ended)} of {len(ended)} held")
    return max((1 for _, code, _ in ended if code != 0), default=0)


if __name__ == "__main__":
    sys.exit(main())
