"""What the service manager is told, and what a check says, must be true."""

from __future__ import annotations

from .fences import Fence

UNIT = "tests/worker/test_service.py"
SERVICE = [
    Fence(
        "a stuck loop starves the watchdog",
        "service.py",
        "if late_s <= self.watchdog_s / 2:",
        "if late_s >= 0:",
        (f"{UNIT}::test_the_watchdog_is_not_fed_while_a_loop_is_late_and_again_once_it_is_back",),
    ),
    Fence(
        "heartbeats say by when they come back",
        "worker/keeper.py",
        "self.returns.say(LOOP, ",
        "(lambda *_: None)(LOOP, ",
        (f"{UNIT}::test_heartbeats_that_hang_are_late",),
    ),
    Fence(
        "the sweep says by when it comes back",
        "orchestrator/duties.py",
        "self.returns.say(loop.what, now_ms)",
        "pass",
        ("tests/orchestrator/test_duties.py::test_a_sweep_that_hangs_is_late_and_a_collection_may_take_its_time",),
    ),
    Fence(
        "a lock is tried by somebody else",
        "lockfile.py",
        "fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)",
        "fcntl.flock(other, fcntl.LOCK_UN)",
        ("tests/worker/test_lockfile.py::test_locks_that_keep_nobody_out_are_found_out",),
    ),
]
