"""Two workers on hosts of their own, whose cables are cut: from everything, from the orchestrator, from the broker.

What one of them has lost, the other finishes, and the first one's late answer changes nothing. Who still has one of
the two ways keeps its lease. An orchestrator that is away for five lease lengths costs nobody anything.
"""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deploy.local.rabbitmq import RabbitMQ
from deploy.local.s3 import Ministack
from planrun.core.life import State
from tests.fleet import Fleet
from tests.lab import WorkerProcess
from tests.netns import Network

LEASE_S = 10.0
ROOM_S = 60.0  # for whatever has to be noticed, beside leases
HOSTS = ("east", "west")


@dataclass(frozen=True)
class Site:
    """A network, and the services at its hub."""

    network: Network
    broker: RabbitMQ
    s3: Ministack


@contextmanager
def open_site(folder: Path) -> Iterator[Site]:
    """This thread is at the hub meanwhile, so that it reaches what is there."""
    network = Network()
    try:
        for host in HOSTS:
            network.add(host)
        broker = RabbitMQ(host=network.hub_address)
        s3 = Ministack(folder / "s3", host=network.hub_address)
        with network.at_hub():
            try:
                broker.start()
                s3.start()
                yield Site(network, broker, s3)
            finally:
                s3.kill()
                broker.remove()
    finally:
        network.close()


@dataclass(eq=False)
class Stand:
    """One fleet at a site; the first worker is in the east, the second in the west.

    Attributes:
        trips: Where the first worker looks for places to stop at.
    """

    fleet: Fleet
    trips: Path
    first: WorkerProcess = field(init=False)

    @property
    def network(self) -> Network:
        assert self.fleet.network is not None
        return self.fleet.network

    async def start(self) -> None:
        self.trips.mkdir()
        self.fleet.start_orchestrator()
        self.first = self.fleet.start_worker(host="east", environment={"PLANRUN_TRIP_DIR": str(self.trips)})
        await self.fleet.ready(1)

    async def submit_to_the_first(self, *, seconds: float) -> str:
        job_id = await self.fleet.submit("render", {"seconds": seconds, "bytes": 200_000})
        await self.fleet.started(job_id, 1)
        return job_id

    async def start_second(self) -> None:
        self.fleet.start_worker(host="west")
        await self.fleet.ready(2)

    async def settles_by(self, job_id: str, attempt: int, *, starts: int, timeout_s: float) -> None:
        """The job finishes, with the file of that attempt, after so many starts."""
        (row,) = await self.fleet.ended(job_id, timeout_s=timeout_s)
        result = await self.fleet.result(job_id)
        assert (row.state, result.attempt) == (State.FINISHED, attempt), self.fleet.last_words()
        assert len(self.fleet.starts(job_id)) == starts, self.fleet.last_words()
        await self.fleet.check(job_id)

    async def says(self, text: str, *, timeout_s: float = ROOM_S) -> None:
        async def said() -> bool:
            return text in self.first.text

        await self.fleet.until(said, f"the first worker says {text!r}", timeout_s=timeout_s)


@asynccontextmanager
async def open_stand(site: Site, folder: Path, *, lease_s: float) -> AsyncIterator[Stand]:
    folder.mkdir()
    fleet = Fleet(folder, broker=site.broker, s3=site.s3, network=site.network, lease_s=lease_s)
    stand = Stand(fleet, folder / "trips")
    try:
        await stand.start()
        yield stand
    finally:
        await fleet.end()


async def cut_from_everything(stand: Stand) -> None:
    """Past its lease, while it renders: the second one takes over; healed, the first one stores nothing."""
    lease_s = stand.fleet.lease_s
    job_id = await stand.submit_to_the_first(seconds=2 * lease_s)
    stand.network.cut("east")  # at once: a machine that is busy starts the second one when the first may have settled
    try:
        await stand.start_second()
        await stand.settles_by(job_id, 2, starts=2, timeout_s=5 * lease_s + ROOM_S)
    finally:
        stand.network.heal("east")
    await stand.says("is over: lost")
    assert (await stand.fleet.attempts(job_id))[0].outcome == "lost"
    await stand.settles_by(job_id, 2, starts=2, timeout_s=ROOM_S)


async def cut_before_it_settles(stand: Stand) -> None:
    """With its file stored already: its settle is refused, and the second one's file and answer stand."""
    lease_s = stand.fleet.lease_s
    (stand.trips / "settle:before").touch()
    job_id = await stand.submit_to_the_first(seconds=0.5)
    await stand.start_second()

    async def is_reached() -> bool:
        return any(stand.trips.glob("settle:before.*.reached"))

    await stand.fleet.until(is_reached, "its file is stored", timeout_s=ROOM_S)
    stand.network.cut("east")
    try:
        stand.first.signal(signal.SIGCONT)
        await stand.settles_by(job_id, 2, starts=2, timeout_s=3 * lease_s + ROOM_S)
    finally:
        stand.network.heal("east")
    await stand.says("was refused: lost")
    await stand.settles_by(job_id, 2, starts=2, timeout_s=ROOM_S)


async def cut_from_the_orchestrator(stand: Stand) -> None:
    """It keeps its lease by heartbeats that the broker confirmed, finishes, and settles on its return."""
    lease_s = stand.fleet.lease_s
    job_id = await stand.submit_to_the_first(seconds=1.5 * lease_s)
    stand.network.block("east", stand.fleet.port)
    try:
        await stand.start_second()
        await stand.says("settle unanswered", timeout_s=1.5 * lease_s + ROOM_S)
        await asyncio.sleep(1.5 * lease_s)
        assert len(stand.fleet.starts(job_id)) == 1, stand.fleet.last_words()
    finally:
        stand.network.unblock("east", stand.fleet.port)
    await stand.settles_by(job_id, 1, starts=1, timeout_s=ROOM_S)


async def cut_from_the_broker(stand: Stand) -> None:
    """Its heartbeats go to the orchestrator."""
    assert stand.fleet.broker is not None
    lease_s = stand.fleet.lease_s
    job_id = await stand.submit_to_the_first(seconds=3 * lease_s)
    await stand.start_second()
    stand.network.block("east", stand.fleet.broker.port)
    try:
        await stand.settles_by(job_id, 1, starts=1, timeout_s=3 * lease_s + ROOM_S)
    finally:
        stand.network.unblock("east", stand.fleet.broker.port)


async def no_orchestrator(stand: Stand) -> None:
    """For five lease lengths, under jobs that end meanwhile and one that runs on: none is lost, none doubled."""
    lease_s = stand.fleet.lease_s
    await stand.start_second()
    jobs = [await stand.submit_to_the_first(seconds=lease_s), await stand.submit_to_the_first(seconds=6 * lease_s)]
    waiting = await stand.fleet.submit("nap", {"seconds": 0})
    stand.fleet.kill_orchestrator()
    await asyncio.sleep(5 * lease_s)
    stand.fleet.start_orchestrator()
    for job_id in jobs:
        await stand.settles_by(job_id, 1, starts=1, timeout_s=2 * lease_s + ROOM_S)
    await stand.settles_by(waiting, 1, starts=1, timeout_s=ROOM_S)


Cut = Callable[[Stand], Coroutine[Any, Any, None]]
CUTS: Sequence[Cut] = (
    cut_from_everything,
    cut_before_it_settles,
    cut_from_the_orchestrator,
    cut_from_the_broker,
    no_orchestrator,
)


async def run(site: Site, folder: Path, cuts: Sequence[Cut], *, lease_s: float) -> None:
    for cut in cuts:
        async with open_stand(site, folder / cut.__name__, lease_s=lease_s) as stand:
            await cut(stand)
        print(f"{cut.__name__.replace('_', ' ')}, leases of {lease_s:g} s: held", flush=True)


def main(minutes: float | None) -> int:
    lease_s = LEASE_S if minutes is None else max(3.0, min(LEASE_S, minutes))
    with tempfile.TemporaryDirectory() as folder, open_site(Path(folder)) as site:
        asyncio.run(run(site, Path(folder), CUTS, lease_s=lease_s))
    return 0
