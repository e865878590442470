"""What has come for a worker since it last asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from planrun.core.flows import Notice
from planrun.core.messages import Lease


class Hearing:
    """The half of `planrun.transport.contract.WorkerTransport` that is the same however a word arrives."""

    def __init__(self) -> None:
        self._news = asyncio.Event()
        self._notices: list[Notice] = []

    def ring(self) -> None:
        """There may be something new."""
        self._news.set()

    def hear(self, notice: Notice) -> None:
        """A word has arrived."""
        self._notices.append(notice)
        self.ring()

    async def changed(self, *, timeout_s: float) -> None:
        """See `WorkerTransport.changed`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._news.wait()
        self._news.clear()

    def notices(self, leases: Sequence[Lease]) -> list[Notice]:
        """See `WorkerTransport.notices`: of what is about leases, only what is about these."""
        said, self._notices = self._notices, []
        return [notice for notice in said if notice.lease is None or notice.lease in leases]
