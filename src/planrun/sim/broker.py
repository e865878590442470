"""A broker as the protocol may suppose one, and no better: at least once, in no order between queues, or not at all.

Heartbeats and markers of one epoch keep their order. An offer that was handed out and not acknowledged comes again
once the connection is gone. What nobody is bound to take is acknowledged all the same, and told apart.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from typing import TYPE_CHECKING

from planrun.core.flows import Marker, Notice
from planrun.core.messages import Message, RenewRequest
from planrun.core.offers import Offer
from planrun.sim.actor import Actor, Hardware
from planrun.sim.ends import AGAIN_S, CONFIRM_S, FleetEnd, WorkerEnd
from planrun.sim.machines import Machine
from planrun.sim.net import NoReply, NoWay

if TYPE_CHECKING:
    from planrun.sim.world import World

SILENT_S = 20.0  # then it ends a connection

DELIVERIES_MAX = 100


class Broker(Machine):
    """Attributes:
    lanes: Offers that lie there, by lane.
    answers: What applications have not yet taken.
    orphans: How many offers were put aside.
    handed: How often an offer was handed to a worker.
    dead: How many messages were put away: nobody could read them, or they were handed out too often.
    deliveries_max: So often, of one message.
    spoilt: So many of the next offers nobody can read.
    declared: Does the application have its queue?
    is_blocked: It takes no messages, and confirms none.
    """

    def __init__(self, world: World, name: str, hardware: Hardware) -> None:
        super().__init__(world, name, hardware)
        self.lanes: dict[str, deque[Offer]] = {}
        self.answers: list[Message] = []
        self.orphans = 0
        self.handed = 0
        self.dead = 0
        self.deliveries_max = DELIVERIES_MAX
        self.spoilt = 0
        self._deliveries: Counter[tuple[str, int]] = Counter()
        self.declared = True
        self.is_blocked = False
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
        self.lose_beats()
        self.break_all()

    def lose_beats(self) -> None:
        """The queue of heartbeats is lost, with what lay there: whoever consumed it is told."""
        self._beats.clear()
        self._bound = None
        if self._sweeper is not None:
            self._sweeper.broken()

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
            self.handed += 1
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
        queue.extendleft(offer for offer in end.take_back() if self._may_come_again(offer))
        self.pump(end.lane)

    def put_back(self, lane: str, offer: Offer) -> None:
        """Where it was: in front of those that nobody has had yet."""
        self.lanes.setdefault(lane, deque()).appendleft(offer)

    def keep(self) -> None:
        """An offer of which the ledger knew nothing."""
        self.orphans += 1

    def put_away(self) -> None:
        """A message that a worker cannot read."""
        self.dead += 1
        self.world.say(self.name, "puts a message away")

    def _may_come_again(self, offer: Offer) -> bool:
        name = offer.job_id, offer.attempt
        self._deliveries[name] += 1
        if self._deliveries[name] < self.deliveries_max:
            return True
        del self._deliveries[name]
        self.put_away()
        return False

    def lying(self) -> list[Offer]:
        """Offers in lanes, and in the hands of workers that have not acknowledged them."""
        held = [offer for end in self._workers for offer in end.in_hand.values()]
        return [*(offer for lane in self.lanes.values() for offer in lane), *held]

    # --- heartbeats ---

    def beat(self, item: RenewRequest | Marker) -> bool:
        """False: there is no queue that takes it."""
        if self._bound is None:
            return False
        self._beats.append(item)
        self._push()
        return True

    def lag(self, by_s: float) -> None:
        """What comes in this epoch waits so long, in its order."""
        if self._sweeper is not None:
            self._sweeper.lag(by_s)

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
                if message in self.answers:  # it may have lost all it had meanwhile
                    self.answers.remove(message)
