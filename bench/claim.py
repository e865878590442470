"""Does a full ledger slow claims down? Offers, grant and settle, with and without two million other jobs.

Two ledgers are asked in turn, A B B A, so that a machine that gets slower or faster meanwhile tells of neither.

    python bench/claim.py [--jobs 100] [--others 1000000]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import apsw

from planrun.core.life import Outcome
from planrun.core.messages import Granted, GrantRequest, Handler, SettleRequest, SubmitRequest, WorkerRow
from planrun.core.offers import OfferQuery
from planrun.ledger.contract import Ledger
from planrun.wiring import open_ledger

ORDER = "ABBA"
HANDLER = Handler(kind="probe", version="v1")
WORKER = WorkerRow(
    incarnation="bench",
    name="bench",
    host="here",
    slots=1,
    handlers=(HANDLER,),
    lock_file="/nonexistent",
    lock_device=0,
    lock_inode=0,
)

# Other people's jobs: half of them wait in the same line, behind the measured ones; half have finished.
FILL = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :others)
INSERT INTO job(job_id, namespace, kind, version, content_hash, state, created_at_ms, ended_at_ms)
SELECT printf('%s-%032d', :state, i), 'default', 'probe', 'v1', 'c', :state, :at_ms,
       CASE WHEN :state = 'finished' THEN :at_ms END FROM n;
"""
FINISHED = """
INSERT INTO attempt(job_id, attempt, token, nonce, incarnation, granted_at_ms, ended_at_ms, outcome, stopped)
SELECT job_id, 1, id, 'n', 'gone', :at_ms, :at_ms, 'success', 1 FROM job WHERE state = 'finished';
INSERT INTO result(job_id, attempt, token, status)
SELECT job_id, 1, id, 'finished' FROM job WHERE state = 'finished';
INSERT INTO event(job_id, at_ms, what) SELECT job_id, :at_ms, 'submitted' FROM job WHERE state = 'finished';
"""


@dataclass(frozen=True)
class Claims:
    """Claims per second of either ledger, one number per block."""

    empty: list[float]
    full: list[float]

    @property
    def ratio(self) -> float:
        return statistics.median(self.full) / statistics.median(self.empty)


def fill(path: Path, others: int) -> None:
    """Write other jobs straight into the file, in one transaction."""
    connection = apsw.Connection(str(path))
    values = {"others": others, "at_ms": 1}
    with connection:
        connection.execute(FILL, values | {"state": "queued"}).fetchall()
        connection.execute(FILL, values | {"state": "finished"}).fetchall()
        connection.execute(FINISHED, values).fetchall()
    connection.execute("ANALYZE").fetchall()
    connection.close()


async def block(ledger: Ledger, jobs: int) -> float:
    """Submit so many urgent jobs, then claim and settle them one by one. Returns claims per second."""
    requests = [
        SubmitRequest(request_id=uuid.uuid4().hex, kind="probe", content_hash="c", request_hash="r", priority=9)
        for _ in range(jobs)
    ]
    for first in range(0, jobs, 100):
        await ledger.submit(requests[first : first + 100])
    query = OfferQuery(namespaces=("default",), handlers=(HANDLER,), capabilities=(), limit=9)
    began = time.perf_counter()
    for _ in range(jobs):
        offer = (await ledger.offers(query))[0]
        granted = await ledger.grant(
            GrantRequest(
                job_id=offer.job_id,
                attempt=offer.attempt,
                incarnation=WORKER.incarnation,
                nonce=uuid.uuid4().hex,
                lease_ms=60_000,
            )
        )
        assert isinstance(granted, Granted)
        await ledger.settle(SettleRequest(lease=granted.lease, outcome=Outcome.SUCCESS))
    return jobs / (time.perf_counter() - began)


async def measure(folder: Path, *, jobs: int, others: int, rounds: int = 6) -> Claims:
    ledgers = {name: open_ledger(f"sqlite:///{folder / name}.db") for name in "AB"}
    for ledger in ledgers.values():
        await ledger.register(WORKER)
    began = time.perf_counter()
    fill(folder / "B.db", others)
    print(f"filled with 2 × {others:,} jobs in {time.perf_counter() - began:.0f} s", file=sys.stderr)
    rates: dict[str, list[float]] = {"A": [], "B": []}
    for name in "AB":
        await block(ledgers[name], 50)  # the first ones pay for caches
    for name in ORDER * rounds:
        rates[name].append(await block(ledgers[name], jobs))
    for ledger in ledgers.values():
        await ledger.close()
    return Claims(empty=rates["A"], full=rates["B"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100, help="claims per block")
    parser.add_argument("--others", type=int, default=1_000_000, help="other queued jobs, and as many finished")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        claims = asyncio.run(measure(Path(folder), jobs=asked.jobs, others=asked.others))
    for word, rates in (("empty", claims.empty), ("full", claims.full)):
        print(
            f"{word:6} {statistics.median(rates):6.0f}/s   {min(rates):.0f} … {max(rates):.0f} in {len(rates)} blocks"
        )
    print(f"a full ledger claims at {claims.ratio:.2f} of the rate of an empty one")
    return 0


if __name__ == "__main__":
    sys.exit(main())
