"""What do durable writes cost bare on this machine, and what does each layer of planrun add?

One by one: a commit for each row; beside it 100 rows in each. WAL and synchronous=FULL throughout. The layers take
turns, so that a machine that gets slower or faster meanwhile tells of none; the medians of all rounds are shown.

    a row      a table without an index, a row as large as planrun's: the disk, and the least of SQLite
    huey       Huey's table and index, a row as large as its own; without Huey
    planrun    planrun's table, indexes and triggers, and its own INSERT: what SQLite adds
    verb       the ledger's verb over it, with the checks and digests of a submit: what Python adds
    client     the public `Client`: the line between processes, the look at the file, the wake-up of others

    python bench/floor.py [--folder /var/tmp] [--jobs 500] [--rounds 5]
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import apsw

from planrun import Client, Submit
from planrun.client.content import ask
from planrun.clock import SystemClock
from planrun.ledger.sqlite.database import connect, statement
from planrun.ledger.sqlite.migrating import migrate
from planrun.ledger.sqlite.writer import SqliteTx
from planrun.ledger.verbs import intake

PER_COMMIT = 100
BULK = 10  # times as many jobs
CHANCE = random.Random(7)
Write = Callable[[int], None]  # so many jobs, in one commit

ROW = "CREATE TABLE job(id INTEGER PRIMARY KEY, body BLOB NOT NULL)"
ROW_BYTES = 400
HUEY = """
CREATE TABLE task(id INTEGER NOT NULL PRIMARY KEY, queue TEXT NOT NULL, data BLOB NOT NULL,
                  priority REAL NOT NULL DEFAULT 0.0);
CREATE INDEX queue_priority_id ON task(queue, priority DESC, id ASC);
"""
HUEY_BYTES = 180


def bare(path: Path, schema: str, insert: str, row: Sequence[Any]) -> Write:
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "full")
    connection.execute(schema)
    return lambda jobs: commit(connection, lambda: connection.executemany(insert, [row] * jobs))


def planrun(path: Path) -> Write:
    connection = connect(path)
    migrate(connection, path)
    insert = statement("insert_job")
    return lambda jobs: commit(connection, lambda: connection.executemany(insert, [job() for _ in range(jobs)]))


def job() -> dict[str, Any]:
    name, digest = str(uuid.UUID(int=CHANCE.getrandbits(128))), f"{CHANCE.getrandbits(256):064x}"
    empty = dict.fromkeys(("key", "retry_of", "deadline_at_ms"))
    zero = dict.fromkeys(("priority", "not_before_ms"), 0)
    said = {
        "namespace": "default",
        "kind": "noop",
        "version": "v1",
        "inputs": "{}",
        "params": '{"number":1}',
        "needs": "[]",
    }
    asked = {"request_id": name.replace("-", ""), "request_hash": digest, "who": "", "why": ""}
    return {"job_id": name, "content_hash": digest, "max_attempts": 4, "wall_ms": 1, **said, **asked, **empty, **zero}


def verb(path: Path) -> Write:
    connection = connect(path)
    migrate(connection, path)
    clock = SystemClock.open_system()

    def write(jobs: int) -> None:
        requests = [ask(a_submit(), request_id=clock.new_id(), wall_ms=1).request for _ in range(jobs)]
        commit(connection, lambda: intake.submit(SqliteTx(connection, clock.now()), requests))

    return write


def client(path: Path) -> Write:
    opened = Client(f"sqlite:///{path}")

    def write(jobs: int) -> None:
        if jobs == 1:
            opened.submit("noop", params={"number": 1})
        else:
            opened.submit_many([a_submit() for _ in range(jobs)])

    return write


def a_submit() -> Submit:
    return Submit("noop", params={"number": 1})


def commit(connection: apsw.Connection, write: Callable[[], object]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    write()
    connection.execute("COMMIT")


def layers(folder: Path) -> dict[str, Write]:
    return {
        "a row": bare(folder / "row.db", ROW, "INSERT INTO job(body) VALUES (?)", (b"x" * ROW_BYTES,)),
        "huey": bare(
            folder / "huey.db", HUEY, "INSERT INTO task(queue, data) VALUES (?, ?)", ("bench", b"x" * HUEY_BYTES)
        ),
        "planrun": planrun(folder / "planrun.db"),
        "verb": verb(folder / "verb.db"),
        "client": client(folder / "client.db"),
    }


def measure(write: Write, commits: int, *, per_commit: int) -> tuple[float, float]:
    """Microseconds of a job: on the clock, and of the processor."""
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    for _ in range(commits):
        write(per_commit)
    each_us = 1e6 / (commits * per_commit)
    return (time.perf_counter() - wall_s) * each_us, (time.process_time() - cpu_s) * each_us


def table(found: dict[tuple[str, int], list[tuple[float, float]]], names: Iterable[str]) -> Iterable[str]:
    yield f"{'':8} {'one by one':>22}   {'100 in a commit':>22}"
    for name in names:
        cells = []
        for per_commit in (1, PER_COMMIT):
            wall_us, cpu_us = (statistics.median(column) for column in zip(*found[name, per_commit], strict=True))
            cells.append(f"{wall_us:8.1f} us (CPU {cpu_us:5.1f})")
        yield f"{name:8} {cells[0]:>22}   {cells[1]:>22}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp"), help="on the disk that is asked about")
    parser.add_argument("--jobs", type=int, default=500, help="per round, one by one; ten times as many in bulk")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    found: dict[tuple[str, int], list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory(dir=asked.folder, prefix="planrun-floor-") as folder:
        writes = layers(Path(folder))
        for write in writes.values():
            measure(write, 400, per_commit=1)  # until the log is written over, and no longer grows
        for turn in range(asked.rounds):
            for name in list(writes) if turn % 2 == 0 else reversed(writes):
                for per_commit, commits in ((1, asked.jobs), (PER_COMMIT, asked.jobs * BULK // PER_COMMIT)):
                    found.setdefault((name, per_commit), []).append(
                        measure(writes[name], commits, per_commit=per_commit)
                    )
    print(*table(found, writes), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
