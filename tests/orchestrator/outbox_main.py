"""A process that delivers once what is owed: `python -m tests.orchestrator.outbox_main URL AHEAD_S [BROKER]`.

Its boottime is ahead by so many seconds, so that what an earlier one has taken and not confirmed is due again.
"""

from __future__ import annotations

import asyncio
import os
import sys

from planrun.clock import SystemClock
from planrun.config import place_of
from planrun.orchestrator.outbox import Outbox
from planrun.orchestrator.publisher import Publisher
from planrun.wiring import open_fleet_transport, open_ledger, open_store


class Ahead(SystemClock):
    """The clocks of this machine, but for boottime."""

    def boot_ms(self) -> int:
        return SystemClock.boot_ms(self) + 1000 * int(sys.argv[2])


async def main(url: str) -> None:
    clock = Ahead.open_system()
    ledger = open_ledger(url, clock=clock)
    broker = open_fleet_transport(clock, broker=sys.argv[3], broker_prefix="pr", generation=0) if sys.argv[3:] else None
    outbox = Outbox(
        ledger,
        clock,
        publisher=Publisher(ledger, open_store(url), place_of(url).public),
        environment={},
        webhook_secret=os.environ["PLANRUN_WEBHOOK_SECRET"],
        broker=broker,
    )
    await outbox.tick(clock.boot_ms())
    await outbox.wait_until_idle()
    await outbox.close()
    if broker is not None:
        await broker.close()
    await ledger.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
