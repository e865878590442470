"""The transport of a fleet in memory, true to the port: in order, at least once, and it can break, drop and repeat."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence

from planrun.core.errors import TransportUnavailable
from planrun.core.flows import Marker, Notice
from planrun.core.messages import Message, RenewRequest
from planrun.core.offers import Offer


class MemoryTransport:
    """Implements `planrun.transport.contract.FleetTransport`; beside it, the workers' end and the faults.

    Attributes:
        lanes: The offers that nobody has taken.
        told: Notices by incarnation.
        asked: How often something was sent to a lane.
        on_begin_epoch: Called in the middle of it, while heartbeats still arrive in the old place.
    """

    def __init__(self) -> None:
        self.lanes: defaultdict[str, list[Offer]] = defaultdict(list)
        self.asked: Counter[str] = Counter()
        self.told: defaultdict[str, list[Notice]] = defaultdict(list)
        self.epochs: list[int] = []
        self.is_up = True
        self.sick: set[str] = set()  # lanes whose queue takes nothing
        self.is_consumed = True  # False: what arrives stays unread, as with an orchestrator that lags
        self.on_begin_epoch: Callable[[], Awaitable[None]] | None = None
        self._breaks = 0
        self._arrived: list[RenewRequest | Marker] = []
        self._unacknowledged: list[RenewRequest | Marker] = []

    # --- the workers' end ---

    def arrive(self, request: RenewRequest) -> bool:
        """A worker's heartbeat. True: confirmed."""
        if self.is_up and self.epochs:
            self._arrived.append(request)
            return True
        return False

    def take(self, lane: str) -> Offer | None:
        """The first offer of a lane, acknowledged at once."""
        return self.lanes[lane].pop(0) if self.lanes[lane] else None

    # --- faults ---

    def break_way(self, *, lose: bool) -> None:
        """The connection of the orchestrator breaks.

        Args:
            lose: The broker forgets everything, too.
        """
        self._breaks += 1
        self._arrived = [] if lose else self._unacknowledged + self._arrived
        self._unacknowledged = []
        if lose:
            self.lanes.clear()

    def purge(self) -> None:
        """All lanes are emptied, and nobody is told."""
        self.lanes.clear()

    def lose_markers(self) -> None:
        """The broker refuses them, as if its queue were full."""
        self._arrived = [each for each in self._arrived if not isinstance(each, Marker)]

    # --- the orchestrator's end ---

    async def send_offer(self, lane: str, offer: Offer) -> None:
        self.asked[lane] += 1
        self._need_broker()
        if lane in self.sick:
            raise TransportUnavailable(f"no answer from {lane}")
        self.lanes[lane].append(offer)

    async def waiting(self, lane: str) -> int:
        self._need_broker()
        return len(self.lanes[lane])

    async def begin_epoch(self, epoch: int) -> None:
        self._need_broker()
        if self.on_begin_epoch is not None:
            await self.on_begin_epoch()
        self.epochs.append(epoch)
        self._arrived, self._unacknowledged = [], []

    async def beats(self, *, timeout_s: float) -> Sequence[RenewRequest | Marker]:
        self._need_broker()
        self._unacknowledged = []
        if not self.is_consumed:
            return []
        self._unacknowledged, self._arrived = self._arrived, []
        await asyncio.sleep(0)
        return tuple(self._unacknowledged)

    async def mark(self, marker: Marker) -> None:
        self._need_broker()
        self._arrived.append(marker)

    @property
    def breaks(self) -> int:
        return self._breaks

    async def tell(self, incarnation: str, notice: Notice) -> None:
        self._need_broker()
        self.told[incarnation].append(notice)

    async def deliver(self, address: str, message: Message) -> None:
        self._need_broker()

    async def orphans(self) -> int:
        return 0

    async def close(self) -> None: ...

    def _need_broker(self) -> None:
        if not self.is_up:
            raise TransportUnavailable("the broker is down")
