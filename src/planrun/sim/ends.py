"""The two ends of the simulated broker: a worker's, and the orchestrator's.

What is decided at an end is the shipped code (`planrun.transport`); what is modelled is the way there, and the broker.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from planrun.complaints import Complaints
from planrun.core.errors import TransportUnavailable, Unroutable
from planrun.core.flows import Marker, Notice
from planrun.core.messages import Lease, Message, RenewRequest, Standing
from planrun.core.offers import Offer
from planrun.ledger.contract import Ledger
from planrun.sim.actor import Actor
from planrun.sim.net import NoReply, NoWay, Way
from planrun.transport.beating import beat
from planrun.transport.hearing import Hearing
from planrun.transport.intake import SLOT_WAIT_S, BrokerOffer, Held, Intake

if TYPE_CHECKING:
    from planrun.sim.machines import Machine
    from planrun.sim.world import World

log = logging.getLogger(__name__)

CONFIRM_S = 5.0
AGAIN_S = 1.0


class End:
    """One party's connections to the broker."""

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
        if self.broker.is_blocked:
            await asyncio.sleep(CONFIRM_S)
            raise TransportUnavailable("the broker takes nothing now")
        return await self.ask(what, do)

    async def ask(self, what: str, do: Callable[[], Any]) -> Any:
        """Ask for something over the connection that publishes nothing: a blocked broker still answers there.

        Raises:
            TransportUnavailable: No answer.
        """

        async def act() -> Any:
            return do()

        try:
            return await self.world.net.ask(
                self.machine.name, self.broker.name, what, self.broker.host, act, patience_s=CONFIRM_S
            )
        except (NoWay, NoReply) as error:
            raise TransportUnavailable(str(error)) from None

    def way_there(self) -> Way:
        """The direction to the broker of a new connection."""
        return self._way(self.broker.host)

    def way_here(self) -> Way:
        """The direction from there."""
        return self._way(lambda: self.actor)

    def _way(self, host: Callable[[], Actor | None]) -> Way:
        return Way(self.world.net, self.world.loop, self.machine.name, self.broker.name, host, self.world.trip_s)


class SimLane:
    """What a worker says to the broker over one connection. Implements `planrun.transport.intake.Lane`."""

    def __init__(self, end: WorkerEnd, there: Way) -> None:
        self._end = end
        self._there = there

    @property
    def is_open(self) -> bool:
        return self._there.is_open

    async def consume(self, arrived: Callable[[Held], Coroutine[Any, Any, None]]) -> None:
        self._end.arrived = arrived
        self._there.say(self._end.consumes, True)

    async def stop(self) -> None:
        self._there.say(self._end.consumes, False)


class SimHeld:
    """Implements `planrun.transport.intake.Held`."""

    def __init__(self, offer: Offer, end: WorkerEnd, there: Way, tag: int) -> None:
        self.offer = offer
        self._end = end
        self._there = there
        self._tag = tag

    async def acknowledge(self) -> None:
        self._there.say(self._end.settled, self._tag, False)

    async def give_back(self) -> None:
        self._there.say(self._end.settled, self._tag, True)

    async def put_aside(self, why: str) -> bool:
        try:
            await self._end.publish("aside", self._end.broker.keep)
        except TransportUnavailable:
            return False
        return True


class WorkerEnd(End):
    """Implements `planrun.transport.contract.WorkerTransport`.

    Attributes:
        arrived: Takes the next offer that arrives.
        in_hand: What was handed to it and not acknowledged, as the broker knows it, by tag.
    """

    arrived: Callable[[Held], Coroutine[Any, Any, None]]

    def __init__(
        self,
        world: World,
        machine: Machine,
        actor: Actor,
        ledger: Ledger,
        *,
        incarnation: str,
        lane: str,
        slot_wait_s: float = SLOT_WAIT_S,
    ) -> None:
        super().__init__(world, machine, actor)
        self.incarnation = incarnation
        self.lane = lane
        self._ledger = ledger
        self._hearing = Hearing()
        complaints = Complaints(log, machine.clock())
        self._intake = Intake(slot_wait_s=slot_wait_s, on_news=self._hearing.ring, complaints=complaints)
        self._there: Way | None = None
        self._here: Way | None = None
        self._is_consuming = False
        self.in_hand: dict[int, Offer] = {}
        self._tags = 0
        self._keeping: asyncio.Task[None] | None = None
        actor.at_crash.append(self.broken)

    async def offers(self, free: int) -> Sequence[BrokerOffer]:
        self._start()
        return await self._intake.take(free)

    async def glance(self) -> Sequence[BrokerOffer]:
        return ()

    async def changed(self, *, timeout_s: float) -> None:
        self._start()
        await self._hearing.changed(timeout_s=timeout_s)

    async def beat(self, request: RenewRequest) -> Sequence[Standing] | None:
        return await beat(request, self._ledger, self._send_beat)

    async def notices(self, leases: Sequence[Lease]) -> Sequence[Notice]:
        return self._hearing.notices(leases)

    async def close(self) -> None:
        self._intake.stop()
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        self.broken()

    # --- the broker's side of it ---

    def takes(self) -> bool:
        return self._is_consuming and not self.in_hand

    def handed(self, offer: Offer) -> None:
        assert self._here is not None
        assert self._there is not None
        self._tags += 1
        self.in_hand[self._tags] = offer
        self._here.say(self._arrive, SimHeld(offer, self, self._there, self._tags))

    def take_back(self) -> list[Offer]:
        in_hand, self.in_hand = list(self.in_hand.values()), {}
        return in_hand

    def consumes(self, is_consuming: bool) -> None:
        self._is_consuming = is_consuming
        self.broker.pump(self.lane)

    def settled(self, tag: int, again: bool) -> None:
        offer = self.in_hand.pop(tag, None)
        if offer is not None and again:
            self.broker.put_back(self.lane, offer)
        self.broker.pump(self.lane)

    def told(self, notice: Notice) -> None:
        assert self._here is not None
        self._here.say(self._hearing.hear, notice)

    def broken(self) -> None:
        """The connection is lost, for both."""
        for way in (self._there, self._here):
            if way is not None:
                way.end()
        self._is_consuming = False
        self.broker.leave(self)

    def _open(self) -> Way:
        """A new connection, and none beside it: of one whose confirmation was lost nobody would ever hear."""
        self.broken()
        self._there, self._here = there, _ = self.way_there(), self.way_here()
        self.broker.join(self)
        return there

    # --- the worker's ---

    async def _send_beat(self, request: RenewRequest) -> bool:
        arrived: bool = await self.publish("beat", lambda: self.broker.beat(request))
        return arrived

    def _start(self) -> None:
        if self._keeping is None:
            self._keeping = asyncio.create_task(self._keep_connected())

    async def _keep_connected(self) -> None:
        lane: SimLane | None = None
        while True:
            if lane is None or not lane.is_open:
                with suppress(TransportUnavailable):
                    lane = SimLane(self, await self.ask("connect", self._open))
                    await self._intake.connect(lane)
                    self._hearing.ring()
            await asyncio.sleep(AGAIN_S)

    def _arrive(self, held: SimHeld) -> None:
        if self.broker.spoilt > 0:
            self.broker.spoilt -= 1
            self.broker.put_away()
            self.world.loop.create_task(held.acknowledge())
        else:
            self.world.loop.create_task(self.arrived(held))


class FleetEnd(End):
    """Implements `planrun.transport.contract.FleetTransport`."""

    def __init__(self, world: World, machine: Machine, actor: Actor, *, generation: int) -> None:
        super().__init__(world, machine, actor)
        self._generation = generation
        self._breaks = 0
        self._is_over = True
        self._arrived: deque[RenewRequest | Marker] = deque()
        self._news = asyncio.Event()
        self._here = self.way_here()
        actor.at_crash.append(lambda: self.broker.end_beats(self))

    async def send_offer(self, lane: str, offer: Offer) -> None:
        await self.publish("offer", lambda: self.broker.put(lane, offer))

    async def waiting(self, lane: str) -> int:
        count: int = await self.ask("look", lambda: len(self.broker.lanes.get(lane, ())))
        return count

    async def begin_epoch(self, epoch: int) -> None:
        self.broker.end_beats(self)
        self._here.end()
        self._here, self._arrived = self.way_here(), deque()
        await self.ask("begin epoch", lambda: self.broker.begin(self, self._generation, epoch))
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
            self._breaks += 1
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
        count: int = await self.ask("look", lambda: self.broker.orphans)
        return count

    async def close(self) -> None:
        self.broker.end_beats(self)

    # --- the broker's side of it ---

    def heard(self, item: RenewRequest | Marker) -> None:
        arrived = self._arrived

        def arrive() -> None:
            arrived.append(item)
            self._news.set()

        self._here.say(arrive)

    def lag(self, by_s: float) -> None:
        self._here.lag(by_s)

    def broken(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._breaks += 1
            self._here.end()
            self.actor.soon(self._news.set)
        self.broker.end_beats(self)
