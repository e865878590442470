"""Time, chance, ids and the environment come through `clock.py` and `config.py`: tests and the simulator own them."""

from __future__ import annotations

import ast
import re

from tests.tidy.tree import SOURCE, dotted, parsed, python, shown

BANNED = re.compile(
    r"time\.(time|time_ns|monotonic|monotonic_ns|perf_counter|perf_counter_ns|clock_gettime|clock_gettime_ns|sleep)"
    r"|(datetime\.)*(datetime|date)\.(now|utcnow|today)"
    r"|random\..*|secrets\..*|uuid\.uuid[14]"
    r"|os\.(environ.*|getenv|urandom)"
)

# Who may, and why.
ALLOWED = {
    "src/planrun/clock.py": "is the port",
    "src/planrun/config.py": "reads the environment, as a default argument",
    "src/planrun/trip.py": "a test arms it through the environment",
    "src/planrun/cli/": "people's time and environment",
    "src/planrun/inbox.py": "runs inside the application that receives answers, without planrun's ports",
    "src/planrun/jobs/": "runs inside the job process, beside job code, without planrun's ports",
    "src/planrun/ledger/sqlite/": "the driver: bounds its own batches, founds a ledger; verbs get time as an argument",
    "src/planrun/sim/": "owns time and chance: all of it comes from the seed",
    "src/planrun/verify/kinds.py": "runs inside the job process",
    "src/planrun/verify/plan.py": "makes a plan of its seed",
    "src/planrun/verify/worker.py": "a process of its own, which the environment tells whose it is",
    "src/planrun/wiring/": "puts the parts together, with what the environment says",
    "src/planrun/worker/isolation.py": "a marker for the process tree that it starts to probe a level",
    "src/planrun/worker/launcher.py": "a process of its own, outside planrun's event loop",
    "src/planrun/worker/meter.py": "runs inside the launcher",
    "src/planrun/worker/tree.py": "runs inside the launcher",
}


def test_no_code_below_the_edges_reads_a_clock_chance_or_the_environment() -> None:
    found = [
        f"{shown(path)}:{node.lineno}: {dotted(node)}"
        for path in python(SOURCE)
        if not shown(path).startswith(tuple(ALLOWED))
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Attribute) and BANNED.fullmatch(dotted(node))
    ]

    assert found == []


def test_banned_functions_are_called_by_their_full_name() -> None:
    """`from time import time` would pass unseen."""
    origins = {"time", "random", "secrets", "datetime", "os", "uuid"}
    harmless = {
        "datetime",
        "date",
        "timedelta",
        "timezone",
        "UTC",
        "UUID",
        "uuid5",
        "NAMESPACE_URL",
        "PathLike",
        "fspath",
    }
    found = [
        f"{shown(path)}:{node.lineno}: from {node.module} import {alias.name}"
        for path in python(SOURCE)
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ImportFrom) and node.module in origins
        for alias in node.names
        if alias.name not in harmless
    ]

    assert found == []
