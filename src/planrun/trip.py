"""Named places where a test may hold a process still. No-ops unless PLANRUN_TRIP_DIR is set at start.

The simulator looks at them through `watch`: there it may stop or kill whoever gets to one.

A race is tested by holding it open, not by sleeping: a test creates `<dir>/<name>` before the process
gets there. The process then renames it to `<name>.reached` (so each file trips one process, once)
and stops itself with SIGSTOP, as a frozen machine would; the test continues it with SIGCONT.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

_DIR = os.environ.get("PLANRUN_TRIP_DIR")
_watcher: Callable[[str], None] | None = None


def watch(watcher: Callable[[str], None] | None) -> None:
    """From now on call this at every such place of this process; None: nobody."""
    global _watcher
    _watcher = watcher


def trip(name: str) -> None:
    """Stop here if a test asked for it."""
    if _watcher is not None:
        _watcher(name)
    if _DIR is None:
        return
    armed = Path(_DIR, name)
    try:
        armed.rename(armed.with_name(f"{name}.{os.getpid()}.reached"))
    except FileNotFoundError:
        return
    # To this very thread: it would go on for a moment if another one took the signal.
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
