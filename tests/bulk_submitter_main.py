"""A process that bulk-submits for tests: `python -m tests.bulk_submitter_main URL SECONDS`; prints one line of JSON."""

from __future__ import annotations

import asyncio
import json
import sys
import time
import uuid

from planrun.core.messages import SubmitRequest
from planrun.wiring import open_ledger

SLICE = 100


def slice_of_jobs() -> list[SubmitRequest]:
    return [
        SubmitRequest(
            request_id=uuid.uuid4().hex,
            kind="nap",
            params={"seconds": 0},
            content_hash="bulk",
            request_hash="bulk",
            priority=-1,
        )
        for _ in range(SLICE)
    ]


async def main(url: str, seconds: float) -> None:
    ledger = open_ledger(url)
    jobs, slowest_s, until_s = 0, 0.0, time.monotonic() + seconds
    while (began_s := time.monotonic()) < until_s:
        jobs += len(await ledger.submit(slice_of_jobs()))
        slowest_s = max(slowest_s, time.monotonic() - began_s)
    await ledger.close()
    print(json.dumps({"jobs": jobs, "slowest_s": round(slowest_s, 3)}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
