"""Measure planrun on this machine, and compare with the numbers that are kept beside this file.

Rates are per second, times in milliseconds. Numbers of other machines, or of a busy one, say little: compare
runs of one sitting. `--keep` writes what was measured as the numbers to compare with from now on.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from bench import claim  # noqa: E402 - the path is set above
from planrun.core.messages import SubmitRequest  # noqa: E402
from tests.lab import Lab, boottime  # noqa: E402

KEPT = HERE / "kept.json"
Numbers = dict[str, float]


async def submits(lab: Lab) -> Numbers:
    """One caller that waits for each answer; then 64 that share commits."""
    one_by_one, together = 500, 64
    began = time.perf_counter()
    for _ in range(one_by_one):
        await _submit(lab)
    alone_s = time.perf_counter() - began
    began = time.perf_counter()
    await asyncio.gather(*(_several(lab, 30) for _ in range(together)))
    return {
        "submit, one caller, per second": one_by_one / alone_s,
        "submit, 64 callers, per second": together * 30 / (time.perf_counter() - began),
    }


async def _submit(lab: Lab) -> None:
    request_id = uuid.uuid4().hex
    await lab.ledger.submit(
        [SubmitRequest(request_id=request_id, kind="nap", content_hash=request_id, request_hash=request_id)]
    )


async def _several(lab: Lab, count: int) -> None:
    for _ in range(count):
        await _submit(lab)


async def fresh_rate(lab: Lab) -> Numbers:
    return {"jobs in fresh processes, per second": await _rate(lab, "keep", {"what": "fine"}, 40)}


async def warm_rate(lab: Lab) -> Numbers:
    return {"jobs in a warm process, per second": await _rate(lab, "warmly", {}, 150)}


async def _rate(lab: Lab, kind: str, params: dict[str, str], count: int) -> float:
    """Jobs that do nothing, all submitted before one worker with one slot begins; measured between starts."""
    jobs = [await lab.submit(kind, params) for _ in range(count)]
    lab.start_worker(disk_free_bytes_min=0)
    await lab.ended(*jobs, timeout_s=120)
    at = sorted(start.at for start in lab.starts())
    low, high = count // 10, count * 9 // 10
    return (high - low) / (at[high] - at[low])


async def fresh_latency(lab: Lab) -> Numbers:
    return await _latency(lab, "keep", {"what": "fine"}, "fresh")


async def warm_latency(lab: Lab) -> Numbers:
    return await _latency(lab, "warmly", {}, "warm")


async def _latency(lab: Lab, kind: str, params: dict[str, str], word: str) -> Numbers:
    """From the submit call to the first line of job code, with a worker that idles."""
    lab.start_worker(disk_free_bytes_min=0)
    await lab.ready(1)
    await lab.ended(await lab.submit(kind, params))
    took_ms = []
    for _ in range(30):
        asked = boottime()
        job_id = await lab.submit(kind, params)
        took_ms.append(1000 * ((await lab.started(job_id, 1)).at - asked))
        await lab.ended(job_id)
        await asyncio.sleep(0.06)
    took_ms.sort()
    return {f"submit to start, {word}, median ms": statistics.median(took_ms), f"same, {word}, slowest ms": took_ms[-1]}


async def takeover(lab: Lab) -> Numbers:
    """From the SIGKILL of a worker to the second start, on another; by proof of death."""
    took_ms = []
    for _ in range(5):
        first = lab.start_worker(lease_s=60)
        await lab.ready(len(lab.workers))
        job_id = await lab.submit("nap", {"seconds": 60})
        await lab.started(job_id, 1)
        second = lab.start_worker(lease_s=60)
        await lab.ready(len(lab.workers))
        killed_at = first.kill()
        took_ms.append(1000 * ((await lab.started(job_id, 2)).at - killed_at))
        second.signal(signal.SIGKILL)
        await lab.cancel(job_id)
    return {"kill to second start, median ms": statistics.median(took_ms), "same, slowest ms": max(took_ms)}


MEASURED: tuple[Callable[[Lab], Awaitable[Numbers]], ...] = (
    submits,
    fresh_rate,
    warm_rate,
    fresh_latency,
    warm_latency,
    takeover,
)


async def measure() -> Numbers:
    """Each in a ledger of its own."""
    found: Numbers = {}
    for one in MEASURED:
        with tempfile.TemporaryDirectory() as folder:
            lab = Lab(Path(folder))
            try:
                found |= await one(lab)
            finally:
                await lab.close()
        print(f"  {one.__name__} done", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        claims = await claim.measure(Path(folder), jobs=100, others=1_000_000)
    return found | {
        "claim and settle, empty ledger, per second": statistics.median(claims.empty),
        "claim and settle, full against empty": claims.ratio,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", action="store_true", help="keep these numbers to compare with")
    keep = parser.parse_args().keep
    kept: Numbers = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, load {load:.1f} before the first measurement")
    found = asyncio.run(measure())
    for what, number in found.items():
        beside = f"kept {kept[what]:10.2f}   ratio {number / kept[what]:.2f}" if kept.get(what) else ""
        print(f"{what:48} {number:10.2f}   {beside}")
    if keep:
        KEPT.write_text(json.dumps({what: round(number, 2) for what, number in found.items()}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
