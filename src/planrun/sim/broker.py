"""A broker as the protocol may suppose one, and no better: at least once, in no order between queues, or not at all.

Heartbeats and markers of one epoch keep their order. An offer that was handed out and not acknowledged comes again
once the connection is gone. What nobody is bound to take is acknowledged all the same, and told apart.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from planrun.core.errors import LedgerUnavailable, TransportUnavailable, Unroutable
from planrun.core.flows import Marker, Notice
from planrun.core.lease import heartbeat_ms
from planrun.core.messages import Lease, Message, RenewRequest, Standing
from planrun.core.offers import Offer
from planrun.ledger.contract import Ledger
from planrun.sim.actor import Actor, Hardware
from planrun.sim.machines import Machine
from planrun.sim.net import NoReply, NoWay

if TYPE_CHECKING:
    from planrun.sim.world import World

CONFIRM_S = 5.0
AGAIN_S = 1.0
SILENT_S = 20.0  # then it ends a connection


class Broker(Machine):
    """Attributes:
    lanes: Offers that lie there, by lane.
    answers: What applications have not yet taken.
    orphans: How many offers were put aside.
    declared: Does the application have its queue?
    """

    def __init__(self, world: World, name: str, hardware: Hardware) -> None:
        super().__init__(world, name, hardware)
        self.lanes: dict[str, deque[Offer]] = {}
        self.answers: list[Message] = []
        self.orphans = 0
        self.declared = True
        self._bound: tuple[int, int] | None = None
        self._beats: deque[RenewRequest | Marker] = deque()
        self._sweeper: FleetEnd | None = None
        self._workers: list[WorkerEnd] = []
        self._chance = world.chance_of("broker")

    async def main(self, actor: Actor) -> None:
        """It comes up with what it had, and without any connection."""
        for message in self.answers:
            actor.spawn(self._hand_over(message))
        while True:
            await asyncio.sleep(SILENT_S)
            for end in [end for end in self._workers if end.seems_gone()]:
                end.broken()
            if self._sweeper is not None and self._sweeper.seems_gone():
                self._sweeper.broken()

    def crash(self) -> None:
        self.break_all()
        super().crash()

    def break_all(self) -> None:
        """All connections are lost; what lies in queues stays."""
        for end in [*self._workers]:
            end.broken()
        if self._sweeper is not None:
            self._sweeper.broken()

    def wipe(self) -> None:
        """Everything in planrun's own queues is lost, with the queues."""
        self.world.say(self.name, "loses all that it had")
        self.lanes.clear()
        self._beats.clear()
        self._bound = None
        self.break_all()

    def host(self) -> Actor | None:
        """The process that answers."""
        return self.actor

    # --- offers ---

    def put(self, lane: str, offer: Offer) -> None:
        self.lanes.setdefault(lane, deque()).append(offer)
        self.pump(lane)

    def pump(self, lane: str) -> None:
        """Hand out what lies there to whoever takes some."""
        queue = self.lanes.get(lane, deque())
        while queue:
            takers = [end for end in self._workers if end.lane == lane and end.takes()]
            if not takers:
                return
            takers[int(self._chance.random() * len(takers))].handed(queue.popleft())

    def join(self, end: WorkerEnd) -> None:
        if end not in self._workers:
            self._workers.append(end)
        self.pump(end.lane)

    def leave(self, end: WorkerEnd) -> None:
        """What it had in hand comes again."""
        if end in self._workers:
            self._workers.remove(end)
        queue = self.lanes.setdefault(end.lane, deque())
        queue.extendleft(end.take_back())
        self.pump(end.lane)

    # --- heartbeats ---

    def beat(self, item: RenewRequest | Marker) -> bool:
        """False: there is no queue that takes it."""
        if self._bound is None:
            return False
        self._beats.append(item)
        self._push()
        return True

    def begin(self, end: FleetEnd, generation: int, epoch: int) -> None:
        self._beats.clear()
        self._bound = (generation, epoch)
        if self._sweeper is not None and self._sweeper is not end:
            self._sweeper.broken()
        self._sweeper = end

    def end_beats(self, end: FleetEnd) -> None:
        if self._sweeper is end:
            self._sweeper = None

    def _push(self) -> None:
        while self._beats and self._sweeper is not None:
            self._sweeper.heard(self._beats.popleft())

    # --- words and answers ---

    def tell(self, incarnation: str, notice: Notice) -> None:
        for end in self._workers:
            if end.incarnation == incarnation:
                end.told(notice)

    def take_answer(self, message: Message) -> bool:
        if not self.declared:
            return False
        self.answers.append(message)
        assert self.actor is not None
        self.actor.spawn(self._hand_over(message))
        return True

    async def _hand_over(self, message: Message) -> None:
        receiver = self.world.receiver

        async def take() -> None:
            receiver.take(message.msg_id, message.body)

        while message in self.answers:
            try:
                await self.world.net.ask(
                    self.name, receiver.name, "answer", lambda: receiver.actor, take, patience_s=CONFIRM_S
                )
            except (NoWay, NoReply):
                await asyncio.sleep(AGAIN_S)
            else:
                self.answers.remove(message)


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
        self._notices: list[Notice] = []
        self._news = asyncio.Event()
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
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._news.wait()
        self._news.clear()

    async def beat(self, request: RenewRequest) -> Sequence[Standing] | None:
        try:
            async with asyncio.timeout(heartbeat_ms(request.lease_ms) / 2000):
                if await self.publish("beat", lambda: self.broker.beat(request)):
                    return None
            why = "nobody takes heartbeats"
        except (TransportUnavailable, TimeoutError) as error:
            why = str(error) or "the broker was silent"
        try:
            return await self._ledger.renew(request)
        except LedgerUnavailable as error:
            raise LedgerUnavailable(f"{error}; and {why}") from None

    async def notices(self, leases: Sequence[Lease]) -> Sequence[Notice]:
        said, self._notices = self._notices, []
        return [notice for notice in said if notice.lease is None or notice.lease in leases]

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
        self.after(self._hear, notice)

    def broken(self) -> None:
        """The connection is lost, for both."""
        self._is_connected = False
        self._connection += 1
        self._inbox = []
        self.broker.leave(self)

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
                    self._news.set()
            await asyncio.sleep(AGAIN_S)

    def _arrive(self, offer: Offer, tag: int, connection: int) -> None:
        if connection == self._connection:
            self._inbox.append(SimOffer(offer, self, tag))
            self._news.set()

    def _hear(self, notice: Notice) -> None:
        self._notices.append(notice)
        self._news.set()


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

    def broken(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._breaks += 1
            self._number += 1
            self.actor.soon(self._news.set)
        self.broker.end_beats(self)
