"""A worker's end that follows its fleet: to another broker, to none, and back.

An orchestrator that was started anew may name another broker. Who stayed with the old one would be offered nothing
there, and nobody would hear its heartbeats; so it is looked up when a broker is lost, and now and then although it is
not: not often, for ten thousand workers ask.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from planrun.clock import Clock
from planrun.core.errors import Invalid, PlanrunError
from planrun.core.flows import Notice
from planrun.core.messages import Lease, RenewRequest, Standing
from planrun.transport.contract import Delivery, WorkerTransport

log = logging.getLogger(__name__)

AGAIN_S = 1.0


class Meeting(NamedTuple):
    """Where a fleet's messages go.

    Attributes:
        broker: Its address; empty: there is none, the ledger itself is asked.
        prefix: Of the fleet's queues there.
    """

    broker: str
    prefix: str


class FollowingTransport:
    """Implements `planrun.transport.contract.WorkerTransport`."""

    def __init__(
        self,
        at: Meeting,
        clock: Clock,
        *,
        where: Callable[[], Awaitable[Meeting]],
        opening: Callable[[Meeting, Callable[[], None]], WorkerTransport],
        every_s: float,
    ) -> None:
        """
        Args:
            at: Where it is now.
            where: Asks the fleet.
            opening: Makes the end for a place, and tells it whom to call when its broker cannot be reached.
            every_s: How often to look, seconds.

        Raises:
            Invalid: As `opening`.
        """
        self._at = at
        self._clock = clock
        self._where = where
        self._opening = opening
        self._every_s = every_s
        self._lost = asyncio.Event()
        self._end = opening(at, self._lost.set)
        self._following: asyncio.Task[None] | None = None

    async def offers(self, free: int) -> Sequence[Delivery]:
        self._start()
        return await self._end.offers(free)

    async def glance(self) -> Sequence[Delivery]:
        return await self._end.glance()

    async def changed(self, *, timeout_s: float) -> None:
        self._start()
        await self._end.changed(timeout_s=timeout_s)

    async def beat(self, request: RenewRequest) -> Sequence[Standing] | None:
        return await self._end.beat(request)

    async def notices(self, leases: Sequence[Lease]) -> Sequence[Notice]:
        return await self._end.notices(leases)

    async def close(self) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        await self._end.close()

    def _start(self) -> None:
        if self._following is None:
            self._following = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._every_s):
                    await self._lost.wait()
            self._lost.clear()
            try:
                await self.tick()
            except Invalid as error:
                log.error("the fleet's new broker cannot be followed to: %s", error)
            except PlanrunError:  # whoever knows cannot be reached either
                pass
            except Exception:  # a fault of planrun must not leave a worker where its fleet no longer is
                log.exception("the fleet's broker is looked up again")
            await self._clock.sleep(AGAIN_S)

    async def tick(self) -> None:
        """Look, and follow.

        Raises:
            PlanrunError: Nobody says where.
            Invalid: There is no going there. It stays where it was.
        """
        at = await self._where()
        if at == self._at:
            return
        end = self._opening(at, self._lost.set)
        old, self._at, self._end = self._end, at, end
        log.info(
            "follows its fleet to %s", "another broker" if at.broker else "no broker: asks the orchestrator for jobs"
        )
        await old.close()
