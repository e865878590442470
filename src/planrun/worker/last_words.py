"""A worker that ends waits for no ledger that gives no answer: a deploy takes its grace, and a moment.

What could not be said is no loss. Its leases stay, so its lock file does, too: whoever takes that lock proves it dead
and takes its jobs over; else the leases run out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from planrun.clock import Clock
from planrun.core.errors import LedgerUnavailable
from planrun.worker.orders import Orders

T = TypeVar("T")

MOMENT_S = 1.0  # for what is nice to say
LAST_WORD_S = 2.0  # for how an attempt ended


async def before_the_end(asking: Coroutine[Any, Any, T], *, orders: Orders, clock: Clock, grace_s: float) -> T:
    """Ask; once this worker was told to end, no longer than its grace and a moment.

    Raises:
        LedgerUnavailable: There was no answer by then.
    """
    asked = asyncio.create_task(asking)
    over = asyncio.create_task(_wait_over(orders, clock, grace_s))
    try:
        await asyncio.wait({asked, over}, return_when=asyncio.FIRST_COMPLETED)
        if asked.done():
            return asked.result()
        raise LedgerUnavailable("the worker ends, and nobody answers: the job goes on elsewhere once that is known")
    finally:
        asked.cancel()
        over.cancel()


async def _wait_over(orders: Orders, clock: Clock, grace_s: float) -> None:
    """Until nobody who asks has to wait any more."""
    told = asyncio.Event()
    orders.listeners.append(told.set)
    try:
        while not orders.is_over(clock.boot_ms(), grace_s):
            told.clear()
            left_ms = None if orders.hand_back_ms is None else orders.hand_back_ms + grace_s * 1000 - clock.boot_ms()
            with suppress(TimeoutError):
                async with asyncio.timeout(None if left_ms is None else left_ms / 1000):
                    await told.wait()
        await clock.sleep(LAST_WORD_S)
    finally:
        orders.listeners.remove(told.set)
