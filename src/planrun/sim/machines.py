"""The parties of a simulated world, made of the shipped code: workers on one box, an application, a receiver."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable
from typing import TYPE_CHECKING

from planrun.client.async_client import AsyncClient
from planrun.config import Place
from planrun.core.access import digest_of
from planrun.core.errors import Conflict, LedgerUnavailable, PlanrunError, ResultGone, UnknownJob, WaitTimeout
from planrun.core.kinds import Kind
from planrun.core.messages import Handler, Message, WorkerRow
from planrun.inbox import Inbox, read
from planrun.ledger.contract import Ledger
from planrun.lockfile import WorkerLock
from planrun.orchestrator.webhook import Gone, NotAccepted
from planrun.sim.actor import Actor, Hardware
from planrun.sim.clock import SimClock
from planrun.sim.jobs import SimPool, kinds_of
from planrun.sim.loop import in_words
from planrun.sim.net import NoReply, NoWay
from planrun.sim.settings import Order
from planrun.transport.contract import WorkerTransport
from planrun.trip import trip
from planrun.wiring import open_ledger, open_transport
from planrun.wiring.ground import Ground
from planrun.wiring.worker import Post, man
from planrun.worker.catalog import Catalog
from planrun.worker.gates import Gates
from planrun.worker.options import WorkerOptions
from planrun.worker.supervisor import Supervisor

if TYPE_CHECKING:
    from planrun.sim.world import World

ASK_AGAIN_S = 2.0
GAVE_UP_REST_S = 10.0  # whoever gave up is not started at once: on a full disk that would be a loop
WAIT_S = 60.0


class Machine:
    """A party with one process, which is started again when it ends.

    Attributes:
        actor: The process that lives; None: none does.
        is_wanted: Shall there be one?
    """

    def __init__(self, world: World, name: str, hardware: Hardware) -> None:
        self.world = world
        self.name = name
        self.hardware = hardware
        self.actor: Actor | None = None
        self.is_wanted = True
        self._ids = world.chance_of(f"{name} ids")
        self._beside: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Start its process, if it has none."""
        if self.actor is None and self.is_wanted:
            self.actor = self.world.loop.add(self.name, self.hardware)
            self.actor.spawn(self._run(self.actor))

    def crash(self) -> None:
        """Its process dies on the spot, and is started again after a while."""
        actor, self.actor = self.actor, None
        if actor is not None:
            self.world.say(self.name, "crashes")
            self.world.loop.crash(actor)
        self.world.loop.world.later(self.world.settings.restart_s, self.start)

    def clock(self) -> SimClock:
        return SimClock(self.hardware, self._ids)

    async def _run(self, actor: Actor) -> None:
        rest_s = self.world.settings.restart_s
        try:
            await self.main(actor)
        except PlanrunError as error:
            self.world.say(self.name, f"ends: {error}")
            rest_s = max(GAVE_UP_REST_S, rest_s)
        except Exception as error:
            self.world.loop.mishaps.append(f"{self.name}: {in_words(error)}")
        if self.actor is actor:
            self.actor = None
            self.world.loop.world.later(rest_s, self.start)
            self.world.loop.crash(actor)

    async def main(self, actor: Actor) -> None:
        """What its process does."""
        raise NotImplementedError


class Worker(Machine):
    """A worker process.

    Attributes:
        supervisor: While it works.
        incarnation: Of the process that lives or lived last.
    """

    supervisor: Supervisor | None = None
    incarnation = ""

    def crash(self) -> None:
        super().crash()
        self.supervisor = None  # the next process may stand still before it has one

    async def main(self, actor: Actor) -> None:
        world, clock = self.world, self.clock()
        place, ledger = self.place(), self.open_ledger(actor, clock)
        world.opened.append(ledger)
        lock = WorkerLock.acquire(place.workers, clock.new_id())
        secret = clock.new_id()
        is_kept = place.is_remote and lock.keep_secret(secret)
        row = self.row(lock, lock_file="" if place.is_remote else str(lock.path), proof=digest_of(secret) * is_kept)
        gates = Gates(
            scratch=place.scratch, store=None, incarnation=lock.path.name, slots=row.slots, disk_free_bytes_min=0
        )
        releasing: list[Callable[[], None]] = [gates.close, lambda: os.close(lock.fd)]
        actor.at_crash += releasing
        post = Post(
            place=place,
            clock=clock,
            ground=Ground(ledger, world.store),
            lock=lock,
            row=row,
            catalog=Catalog(self.kinds, row.handlers, row.capabilities),
            scratch=place.scratch,
            gates=gates,
            processes=SimPool(world.start_s, world.settings.deed_of, world.bytes_of, world.began),
            transport=self.open_transport(actor, ledger, clock, row),
            clear=lambda incarnation: None,
            environment={},
            webhooks=Sender(world, self),
        )
        try:
            async with man(post, self.options()) as self.supervisor:
                world.say(self.name, f"starts, incarnation {row.incarnation[:6]}")
                code = await self.supervisor.serve()
                world.say(self.name, f"has ended with {code}")
        finally:
            self.supervisor = None
            if not actor.is_dead:
                actor.at_crash = [each for each in actor.at_crash if each not in releasing]  # it has let go
        await ledger.close()

    def place(self) -> Place:
        """Where its files are."""
        raise NotImplementedError

    def open_ledger(self, actor: Actor, clock: SimClock) -> Ledger:
        """How it reaches the ledger."""
        raise NotImplementedError

    def open_transport(self, actor: Actor, ledger: Ledger, clock: SimClock, row: WorkerRow) -> WorkerTransport:
        """How it comes to offers."""
        raise NotImplementedError

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """What it can run."""
        settings = self.world.settings
        return kinds_of(settings.versions.get(self.name, ("v1",)), settings.stall_s)

    def deploy(self) -> None:
        """SIGTERM."""
        if self.supervisor is not None and self.actor is not None:
            self.world.say(self.name, "is told to end")
            self.actor.soon(self.supervisor.drain)

    def options(self) -> WorkerOptions:
        settings = self.world.settings
        return WorkerOptions(
            modules=("sim",),
            name=self.name,
            slots=settings.slots,
            lease_s=settings.lease_s,
            proof_of_death=settings.proof_of_death,
            drain_grace_s=settings.drain_grace_s,
            gc_grace_s=settings.gc_grace_s,
            disk_free_bytes_min=0,
        )

    def row(self, lock: WorkerLock, *, lock_file: str, proof: str = "") -> WorkerRow:
        self.incarnation = lock.path.name
        self.world.incarnations[self.incarnation] = self
        return WorkerRow(
            incarnation=self.incarnation,
            name=self.name,
            host=self.hardware.name,
            slots=self.world.settings.slots,
            namespaces=self.world.namespaces,
            capabilities=self.world.settings.capabilities.get(self.name, ()),
            handlers=tuple(Handler(kind=kind.kind, version=kind.version) for kind in self.kinds),
            lock_file=lock_file,
            lock_device=lock.device,
            lock_inode=lock.inode,
            proof=proof,
        )


class BoxWorker(Worker):
    """A worker process on the box of the ledger's file."""

    def place(self) -> Place:
        return self.world.place

    def open_ledger(self, actor: Actor, clock: SimClock) -> Ledger:
        return open_ledger(self.world.url, clock=clock, hands=self.world.disk.hands(actor))

    def open_transport(self, actor: Actor, ledger: Ledger, clock: SimClock, row: WorkerRow) -> WorkerTransport:
        return open_transport(ledger, clock, row)


class Sender:
    """Sends webhooks over the simulated network. Implements `planrun.orchestrator.outbox.Webhooks`."""

    def __init__(self, world: World, machine: Machine) -> None:
        self._world = world
        self._machine = machine

    async def send(self, url: str, message: Message, *, wall_ms: int) -> None:
        receiver = self._world.receiver

        async def take() -> None:
            receiver.take(message.msg_id, message.body)

        try:
            await self._world.net.ask(
                self._machine.name, receiver.name, "answer", lambda: receiver.actor, take, patience_s=8
            )
        except (NoWay, NoReply) as error:
            raise NotAccepted(str(error)) from None

    async def close(self) -> None:
        pass


class Receiver(Machine):
    """The application's end of its answers: remembers on what it has acted, with the shipped inbox.

    Attributes:
        acts: How often it acted on each message.
        is_gone: It takes no messages any more, and says so.
    """

    def __init__(self, world: World, name: str, hardware: Hardware) -> None:
        super().__init__(world, name, hardware)
        self.acts: dict[str, int] = {}
        self.is_gone = False
        self._database = sqlite3.connect(":memory:")  # what it keeps when it dies
        Inbox(self._database).create()

    def take(self, msg_id: str, body: str) -> None:
        """One message has arrived, perhaps not for the first time.

        Raises:
            Gone: It wants no more of them.
        """
        if self.is_gone:
            raise Gone("it answered 410")
        self.world.checks.announced(msg_id, body)
        with self._database:  # its effect would be in the same transaction
            is_new = Inbox(self._database).once(msg_id)
            trip("answer:acting")
        received = read(body)
        self.world.say(
            self.name,
            f"{'acts on' if is_new else 'has seen'} the answer {received.result.state}",
            job=received.result.job_id,
            attempt=received.result.attempt,
            token=received.result.token,
        )
        if is_new:
            self.acts[msg_id] = self.acts.get(msg_id, 0) + 1
        trip("answer:acted")

    async def main(self, actor: Actor) -> None:
        await asyncio.Event().wait()


class App(Machine):
    """The application: hands jobs in, waits, cancels. What it does survives its own crashes: it asks again."""

    @property
    def url(self) -> str:
        """Where it finds planrun."""
        return self.world.url

    def open_ledger(self, actor: Actor, clock: SimClock) -> Ledger:
        """How it reaches the ledger."""
        return open_ledger(self.url, clock=clock, hands=self.world.disk.hands(actor))

    async def main(self, actor: Actor) -> None:
        world, clock = self.world, self.clock()
        ledger = self.open_ledger(actor, clock)
        world.opened.append(ledger)
        client = self.client = AsyncClient.over(ledger, world.store, url=self.url, clock=clock)
        async with asyncio.TaskGroup() as tasks:
            for order in world.settings.orders:
                tasks.create_task(self._follow(client, order))
        await asyncio.Event().wait()

    async def _follow(self, client: AsyncClient, order: Order) -> None:
        world = self.world
        await asyncio.sleep(max(0.0, order.at_s - world.loop.now_s))
        job_id = await self._submit(client, order)
        if job_id is None:
            return
        if order.cancel_after_s is not None:
            self._beside.add(asyncio.create_task(self._cancel(client, order, job_id)))
        while order.waits and order.name not in world.answers:
            try:
                answer = await client.wait(job_id, timeout_s=WAIT_S)
            except (WaitTimeout, LedgerUnavailable):
                await asyncio.sleep(ASK_AGAIN_S)
            except (UnknownJob, ResultGone) as error:
                world.checks.denied(order, job_id, error)
                job_id = await self._submit(client, order)
                if job_id is None:
                    return
            else:
                world.checks.answered(order, answer)

    async def _submit(self, client: AsyncClient, order: Order) -> str | None:
        world = self.world
        while True:
            try:
                handle = await client.submit(
                    order.kind,
                    params={"n": order.n},
                    version=order.version,
                    namespace=order.namespace,
                    needs=order.needs,
                    request_id=f"call-{order.name}",
                    key=order.key,
                    priority=order.priority,
                    delay_s=order.delay_s,
                    deadline_s=order.deadline_s,
                    max_attempts=order.max_attempts,
                    subscribers=[self.route(order, each) for each in range(order.routes)],
                )
            except Conflict as error:
                world.say(self.name, f"is refused: {error}")
                world.checks.refused(order)
                return None
            except LedgerUnavailable:
                await asyncio.sleep(ASK_AGAIN_S)
            else:
                world.say(self.name, f"has handed in {order.name} ({handle.disposition})", job=handle.id)
                world.checks.accepted(order, handle.id)
                return handle.id

    def route(self, order: Order, number: int) -> str:
        """Where an answer goes."""
        return f"webhook:http://{order.name}-{number}"

    async def _cancel(self, client: AsyncClient, order: Order, job_id: str) -> None:
        assert order.cancel_after_s is not None
        await asyncio.sleep(order.cancel_after_s)
        while True:
            try:
                reply = await client.cancel(job_id, who=self.name, why="as told")
            except LedgerUnavailable:
                await asyncio.sleep(ASK_AGAIN_S)
            except UnknownJob as error:
                self.world.checks.denied(order, job_id, error)
                await asyncio.sleep(ASK_AGAIN_S)
            else:
                self.world.checks.canceled(job_id, reply)
                return
