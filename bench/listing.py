"""How long does each look at a full ledger take? Pages, counts, one job, and everything else that people ask.

A million ended jobs and ten thousand that wait, of many kinds, versions and namespaces. Each listing is asked for its
first page, and for one deep in the middle. Medians of a few tries, in milliseconds; the worst is what counts.

    python bench/listing.py [--ended 1000000] [--waiting 10000] [--at LEDGER]
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import apsw

from planrun.client import AsyncClient
from planrun.clock import SystemClock
from planrun.wiring import open_ledger

TRIES = 5
SLOW_MS = 200

# Every 500th job failed and every 1000th was canceled; every 50th is of a rare kind, every 20th of another namespace.
FILL = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :ended + :waiting)
INSERT INTO job(job_id, namespace, kind, version, content_hash, key, key_open, state, reason, created_at_ms,
                ended_at_ms)
SELECT printf('job-%032d', i), CASE WHEN i % 20 = 0 THEN 'team-' || (i / 20 % 7) ELSE 'default' END,
       CASE WHEN i % 50 = 0 THEN 'rare-' || (i / 50 % 5) ELSE 'kind-' || (i % 3) END, 'v' || (1 + i % 2), 'c',
       CASE WHEN i % 4 = 0 THEN 'key-' || (i / 40) END, 0,
       CASE WHEN i > :ended THEN 'queued' WHEN i % 1000 = 0 THEN 'canceled' WHEN i % 500 = 0 THEN 'failed'
            ELSE 'finished' END,
       CASE WHEN i <= :ended AND i % 500 = 0 AND i % 1000 <> 0 THEN 'permanent' END,
       :now_ms - (:ended + :waiting - i) * 100,
       CASE WHEN i <= :ended THEN :now_ms - (:ended + :waiting - i) * 100 + 50 END
  FROM n;
INSERT INTO attempt(job_id, attempt, token, nonce, incarnation, granted_at_ms, ended_at_ms, outcome, stopped, collected)
SELECT job_id, 1, id, 'n', 'w' || (id % 1000), created_at_ms, ended_at_ms,
       CASE state WHEN 'finished' THEN 'success' WHEN 'failed' THEN 'permanent' ELSE 'canceled' END, 1, 1
  FROM job WHERE ended_at_ms IS NOT NULL;
INSERT INTO result(job_id, attempt, token, status) SELECT job_id, 1, id, state FROM job WHERE ended_at_ms IS NOT NULL;
INSERT INTO request(namespace, request_id, request_hash, job_id, created_at_ms)
SELECT namespace, 'request-' || id, 'h', job_id, created_at_ms FROM job;
INSERT INTO event(job_id, at_ms, what, attempt)
SELECT job_id, created_at_ms, what, 1
  FROM job JOIN (SELECT 'submitted' AS what UNION ALL SELECT 'granted' UNION ALL SELECT 'succeeded')
 WHERE ended_at_ms IS NOT NULL OR what = 'submitted';
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999)
INSERT INTO worker(incarnation, name, host, namespaces, slots, capabilities, handlers, lock_file, lock_device,
                   lock_inode, pid, state, seen_at_ms)
SELECT 'w' || i, 'box-' || i, 'box', '["default"]', 1, '[]', '[{"kind":"kind-0","version":"v1"}]', '', 0, 0, 1,
       CASE WHEN i < 20 THEN 'ready' ELSE 'gone' END, :now_ms - i * 60000 FROM n;
"""


def fill(path: Path, *, ended: int, waiting: int) -> None:
    """Write jobs straight into the file of a ledger, in one transaction."""
    values = {"ended": ended, "waiting": waiting, "now_ms": SystemClock.open_system().now().wall_ms}
    with apsw.Connection(str(path)) as connection:
        connection.execute(FILL, values).fetchall()


def filters(now_of: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every combination of the filters that a listing has."""
    names = list(now_of)
    for count in range(len(names) + 1):
        for chosen in itertools.combinations(names, count):
            yield {name: now_of[name] for name in chosen}


# What each filter is set to: common values, rare ones, and such as nothing matches.
NAMES = ("namespace", "kind", "version", "state", "key", "since_s")
VALUES: dict[str, tuple[str | float, ...]] = {
    "common": ("default", "kind-1", "v2", "finished", "key-5000", 50_000.0),
    "rare": ("team-3", "rare-2", "v1", "failed", "key-7", 60.0),
    "nothing": ("nobody", "none", "v9", "running", "no", 0.0),
}


def questions(client: AsyncClient, *, jobs: int) -> Iterator[tuple[str, Callable[[], Awaitable[Any]]]]:
    for word, values in VALUES.items():
        for chosen in filters(dict(zip(NAMES, values, strict=True))):
            for where, before in (("front", None), ("middle", jobs // 2)):
                name = f"list, {word} {'+'.join(chosen) or 'everything'}, {where}"
                yield name, partial(client.list, **chosen, before=before)
    yield "list, 1000 of them", lambda: client.list(limit=1000)
    some = f"job-{jobs // 2:032d}"
    yield "counts", client.counts
    yield "counts of a namespace", lambda: client.counts(namespace="team-3")
    yield "show", lambda: client.show(some)
    yield "show by request", lambda: client.show(f"request-{jobs // 3}")
    yield "events", lambda: client.events(some)
    yield "attempts", lambda: client.attempts(some)
    yield "why, ended", lambda: client.why(some)
    yield "why, waiting", lambda: client.why(f"job-{jobs - 5:032d}")
    yield "kinds", client.kinds
    yield "workers", client.workers
    yield "pauses", lambda: client.pauses(limit=50)


async def measure(url: str, *, jobs: int) -> dict[str, float]:
    """Milliseconds of each question: the median of a few tries."""
    found = {}
    async with AsyncClient(url) as client:
        for name, ask in questions(client, jobs=jobs):
            times = []
            for _ in range(TRIES):
                began = time.perf_counter()
                await ask()
                times.append((time.perf_counter() - began) * 1000)
            found[name] = statistics.median(times)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ended", type=int, default=1_000_000, help="jobs that have ended")
    parser.add_argument("--waiting", type=int, default=10_000, help="jobs that wait")
    parser.add_argument("--at", type=Path, help="make the ledger here, and keep it; measured as it is if it exists")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = (asked.at or Path(folder) / "full.db").absolute()
        if not path.exists():
            asyncio.run(open_ledger(f"sqlite:///{path}").close())
            began = time.perf_counter()
            fill(path, ended=asked.ended, waiting=asked.waiting)
            print(f"filled in {time.perf_counter() - began:.0f} s, {path.stat().st_size >> 20} MiB", file=sys.stderr)
        found = asyncio.run(measure(f"sqlite:///{path}", jobs=asked.ended + asked.waiting))
    slowest = sorted(found.items(), key=lambda item: -item[1])
    pages = [ms for name, ms in found.items() if name.startswith("list")]
    print(f"{len(pages)} pages: median {statistics.median(pages):.1f} ms, worst {max(pages):.1f} ms")
    for name, ms in [*slowest[:12], *((name, ms) for name, ms in found.items() if not name.startswith("list"))]:
        print(f"{ms:8.1f} ms  {name}")
    return int(slowest[0][1] > SLOW_MS)


if __name__ == "__main__":
    sys.exit(main())
