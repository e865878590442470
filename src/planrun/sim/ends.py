"""The two ends of the simulated broker: a worker's, and the orchestrator's."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from planrun.core.errors import TransportUnavailable, Unroutable
from planrun.core.flows import Marker, Notice
from planrun.core.messages import Lease, Message, RenewRequest, Standing
from planrun.core.offers import Offer
from planrun.ledger.contract import Ledger
from planrun.sim.actor import Actor
from planrun.sim.net import NoReply, NoWay
from planrun.transport.beating import beat
from planrun.transport.hearing import Hearing

if TYPE_CHECKING:
    from planrun.sim.machines import Machine
    from planrun.sim.world import World

CONFIRM_S = 5.0
AGAIN_S = 1.0


class End:
    """One party's connection to the broker."""

    def __init__(self, world: World, machine: Machine, actor: Actor) -> None:
        self.world = world
        self.machine = machine
        self.actor = actor
        self.broker = world.broker

    def seems_gone(self) -> bool:
        """Has the broker not heard of it for long?"""
        is_cut = self.world.net.is_cut(self.machine.name, self.broker.name)
        return is_cut or self.actor.is_frozen or self.actor.is_dead or self.actor.hardware.stands

    async def publish(self, what: str, do: Callable[[], Any]) -> Any:
        """Send something, and wait for the confirmation.

        Raises:
            TransportUnavailable: There is none.
        """

        async def act() -> Any:
            return do()

        if self.broker.is_blocked:
            await asyncio.sleep(CONFIRM_S)
            raise TransportUnavailable("the broker takes nothing now")
        try:
            return await self.world.net.ask(
                self.machine.name, self.broker.name, what, self.broker.host, act, patience_s=CONFIRM_S
            )
        except (NoWay, NoReply) as error:
            raise TransportUnavailable(str(error)) from None

    def after(self, act: Callable[..., None], *args: Any) -> None:
        """Something of the broker's reaches this party, unless the way is cut."""
        if not self.world.net.is_cut(self.machine.name, self.broker.name):
            self.world.loop.world.later(self.world.trip_s(), self.actor.soon, act, *args)


class SimOffer:
    """One offer in a worker's hands."""

    def __init__(self, offer: Offer, end: WorkerEnd, tag: int) -> None:
        self.offer = offer
        self._end = end
        self._tag = tag

    async def done(self, lease: Lease | None = None) -> None:
        self._end.acknowledge(self._tag, again=False)

    async def back(self) -> None:
        self._end.acknowledge(self._tag, again=True)

    async def strange(self, why: str) -> None:
        self._end.broker.orphans += 1
        self._end.acknowledge(self._tag, again=False)


class WorkerEnd(End):
    """Implements `planrun.transport.contract.WorkerTransport`."""

    def __init__(
        self, world: World, machine: Machine, actor: Actor, ledger: Ledger, *, incarnation: str, lane: str
    ) -> None:
        super().__init__(world, machine, actor)
        self.incarnation = incarnation
        self.lane = lane
        self._ledger = ledger
        self._free = 0
        self._connection = 0  # 0: none; grows with each
        self._is_connected = False
        self._inbox: list[SimOffer] = []
        self._in_hand: dict[int, Offer] = {}
        self._tags = 0
        self._hearing = Hearing()
        self._keeping: asyncio.Task[None] | None = None
        actor.at_crash.append(self.broken)

    async def offers(self, free: int) -> Sequence[SimOffer]:
        self._start()
        self._free = free
        inbox, self._inbox = self._inbox, []
        for late in inbox[free:]:
            await late.back()
        if self._is_connected:
            self.broker.pump(self.lane)
        return inbox[:free]

    async def glance(self) -> Sequence[SimOffer]:
        return ()

    async def changed(self, *, timeout_s: float) -> None:
        self._start()
        await self._hearing.changed(timeout_s=timeout_s)

    async def beat(self, request: RenewRequest) -> Sequence[Standing] | None:
        return await beat(request, self._ledger, self._send_beat)

    async def notices(self, leases: Sequence[Lease]) -> Sequence[Notice]:
        return self._hearing.notices(leases)

    async def close(self) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        self.broken()

    # --- the broker's side of it ---

    def takes(self) -> bool:
        return self._free > len(self._in_hand) and self._is_connected and not self._in_hand

    def handed(self, offer: Offer) -> None:
        self._tags += 1
        self._in_hand[self._tags] = offer
        self.after(self._arrive, offer, self._tags, self._connection)

    def take_back(self) -> list[Offer]:
        in_hand, self._in_hand = list(self._in_hand.values()), {}
        return in_hand

    def acknowledge(self, tag: int, *, again: bool) -> None:
        connection = self._connection

        def arrive() -> None:
            if connection != self._connection or tag not in self._in_hand:
                return
            offer = self._in_hand.pop(tag)
            if again:
                self.broker.put(self.lane, offer)
            self.broker.pump(self.lane)

        if not self.world.net.is_cut(self.machine.name, self.broker.name):
            self.world.loop.world.later(self.world.trip_s(), arrive)

    def told(self, notice: Notice) -> None:
        self.after(self._hearing.hear, notice)

    def broken(self) -> None:
        """The connection is lost, for both."""
        self._is_connected = False
        self._connection += 1
        self._inbox = []
        self.broker.leave(self)

    async def _send_beat(self, request: RenewRequest) -> bool:
        arrived: bool = await self.publish("beat", lambda: self.broker.beat(request))
        return arrived

    def _start(self) -> None:
        if self._keeping is None:
            self._keeping = asyncio.create_task(self._keep_connected())

    async def _keep_connected(self) -> None:
        while True:
            if not self._is_connected:
                with suppress(TransportUnavailable):
                    await self.publish("connect", lambda: None)
                    self._is_connected = True
                    self.broker.join(self)
                    self._hearing.ring()
            await asyncio.sleep(AGAIN_S)

    def _arrive(self, offer: Offer, tag: int, connection: int) -> None:
        if connection != self._connection:
            return
        if self.broker.spoilt > 0:
            self.broker.spoilt -= 1
            self.broker.put_away()
            self.acknowledge(tag, again=False)
            return
        self._inbox.append(SimOffer(offer, self, tag))
        self._hearing.ring()


class FleetEnd(End):
    """Implements `planrun.transport.contract.FleetTransport`."""

    def __init__(self, world: World, machine: Machine, actor: Actor, *, generation: int) -> None:
        super().__init__(world, machine, actor)
        self._generation = generation
        self._breaks = 0
        self._is_over = True
        self._arrived: deque[RenewRequest | Marker] = deque()
        self._news = asyncio.Event()
        self._last_s = 0.0
        self._number = 0
        actor.at_crash.append(lambda: self.broker.end_beats(self))

    async def send_offer(self, lane: str, offer: Offer) -> None:
        await self.publish("offer", lambda: self.broker.put(lane, offer))

    async def waiting(self, lane: str) -> int:
        count: int = await self.publish("look", lambda: len(self.broker.lanes.get(lane, ())))
        return count

    async def begin_epoch(self, epoch: int) -> None:
        self.broker.end_beats(self)
        self._number += 1
        self._arrived.clear()
        await self.publish("begin epoch", lambda: self.broker.begin(self, self._generation, epoch))
        self._is_over = False

    async def beats(self, *, timeout_s: float) -> Sequence[RenewRequest | Marker]:
        if self._is_over:
            self._breaks += 1
            await asyncio.sleep(timeout_s)
            return ()
        if not self._arrived:
            self._news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._news.wait()
        if self._is_over:
            return ()
        batch = list(self._arrived)
        self._arrived.clear()
        return batch

    async def mark(self, marker: Marker) -> None:
        if not await self.publish("mark", lambda: self.broker.beat(marker)):
            raise TransportUnavailable("no queue of heartbeats is bound: a new epoch has to begin")

    @property
    def breaks(self) -> int:
        return self._breaks

    async def tell(self, incarnation: str, notice: Notice) -> None:
        await self.publish("tell", lambda: self.broker.tell(incarnation, notice))

    async def deliver(self, address: str, message: Message) -> None:
        if not await self.publish("deliver", lambda: self.broker.take_answer(message)):
            raise Unroutable(f"the broker has no queue {address}")

    async def orphans(self) -> int:
        return self.broker.orphans

    async def close(self) -> None:
        self.broker.end_beats(self)

    # --- the broker's side of it ---

    def heard(self, item: RenewRequest | Marker) -> None:
        """In the order in which they were sent, however long each takes."""
        loop = self.world.loop
        self._last_s = max(self._last_s, loop.now_s + self.world.trip_s())
        number = self._number

        def arrive() -> None:
            if number == self._number and not self._is_over:
                self._arrived.append(item)
                self._news.set()

        loop.world.later(self._last_s - loop.now_s, self.actor.soon, arrive)

    def lag(self, by_s: float) -> None:
        self._last_s = self.world.loop.now_s + by_s

    def broken(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._breaks += 1
            self._number += 1
            self.actor.soon(self._news.set)
        self.broker.end_beats(self)
