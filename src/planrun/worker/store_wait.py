"""A store that is away costs waiting, not the attempt, whose lease goes on being renewed.

A refusal, and a full disk, are no absence: they go on as they are.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from planrun.clock import Clock
from planrun.complaints import Complaints
from planrun.core.errors import LostLease, StorageError
from planrun.worker.keeper import Holding
from planrun.worker.orders import Orders

T = TypeVar("T")

RETRY_S = (0.1, 0.2, 0.5, 1.0)


class Drained(Exception):
    """This worker ends, so the job is handed back. Its text says why."""


@dataclass(eq=False)
class StoreWait:
    """One attempt's patience with the store.

    Attributes:
        who: Who waits, for the log.
        drain_grace_s: How long it goes on after this worker was told to end.
    """

    who: str
    holding: Holding
    orders: Orders
    clock: Clock
    complaints: Complaints
    drain_grace_s: float

    async def carry(self, act: Callable[[], T]) -> T:
        """Do it in a thread, again for as long as the store is away. It may be done several times.

        Raises:
            LostLease: The lease is over, or `act` said so.
            Drained: This worker ends.
            StorageError: The store refused.
        """
        for tries in itertools.count():
            try:
                done = await asyncio.to_thread(act)
            except StorageError as error:
                if not error.is_away:
                    raise
                why = str(error)
            else:
                self.complaints.over("store")
                return done
            self.complaints.say("store", f"{self.who} waits for the store: {why}")
            self.holding.say(None, f"waiting for the store: {why}")
            if self.holding.is_over:
                raise LostLease("the lease ended while the store was away")
            if self.orders.is_over(self.clock.boot_ms(), self.drain_grace_s):
                raise Drained(f"the worker drains, and the store is away: {why}")
            await self.clock.sleep(RETRY_S[min(tries, len(RETRY_S) - 1)])
        raise AssertionError("counting never ends")
