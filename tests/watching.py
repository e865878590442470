"""What a test watches while something else happens: how late the renewals of leases come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from planrun.core.errors import LedgerUnavailable
from tests.lab import Lab, boottime

EVERY_S = 0.05


@dataclass(eq=False)
class Renewals:
    """Attributes:
    largest_gap_s: The oldest that any running lease was seen, counted from its last renewal.
    """

    lease_s: float
    largest_gap_s: float = 0
    looks: int = field(default=0)

    async def watch(self, lab: Lab, job_ids: list[str]) -> None:
        while True:
            for job_id in job_ids:
                with suppress(LedgerUnavailable):
                    asked = boottime()  # before the look: the row may only be newer than that
                    row = await lab.job(job_id)
                    if row.lease_until_ms is not None:
                        self.largest_gap_s = max(self.largest_gap_s, asked - row.lease_until_ms / 1000 + self.lease_s)
                        self.looks += 1
            await asyncio.sleep(EVERY_S)


@asynccontextmanager
async def renewals_of(lab: Lab, job_ids: list[str], *, lease_s: float) -> AsyncIterator[Renewals]:
    """Watch the leases of jobs as long as the block runs."""
    renewals = Renewals(lease_s)
    watching = asyncio.create_task(renewals.watch(lab, job_ids))
    try:
        yield renewals
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
