"""Submits jobs one after the other, and prints each request id once its submit is acknowledged.

python party.py URL PREFIX COUNT
"""

from __future__ import annotations

import asyncio
import sys

from planrun.core.messages import SubmitRequest
from planrun.wiring import open_ledger


async def main(url: str, prefix: str, count: int) -> None:
    ledger = open_ledger(url)
    for n in range(count):
        request_id = f"{prefix}-{n}"
        await ledger.submit([SubmitRequest(request_id=request_id, kind="preview", content_hash="c", request_hash="h")])
        print(request_id, flush=True)
    await ledger.close()


asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
