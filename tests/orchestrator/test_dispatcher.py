"""Which jobs are offered to whom, and when again."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from planrun.core.errors import TransportUnavailable
from planrun.core.flows import lane_of
from planrun.core.life import State
from planrun.core.messages import Granted, Handler, Lease, WorkerRow
from planrun.core.pauses import PauseRequest
from planrun.ledger.fleet import FleetLedger
from planrun.orchestrator.dispatcher import Dispatcher
from planrun.wiring import open_fleet_ledger
from tests.contract.actors import HANDLER, Actors, a_request
from tests.contract.manual_clock import ManualClock
from tests.orchestrator.memory_transport import MemoryTransport

pytestmark = pytest.mark.anyio


class Stage:
    """A ledger, a broker in memory, a dispatcher that is ticked, and machines that take what their lane holds."""

    def __init__(self, ledger: FleetLedger, clock: ManualClock) -> None:
        self.ledger, self.clock = ledger, clock
        self.they = Actors(ledger, clock)
        self.transport = MemoryTransport()
        self.machines: dict[str, WorkerRow] = {}
        self.running: dict[str, list[Lease]] = {}
        self.started: list[str] = []
        self.start_dispatcher()

    def start_dispatcher(self) -> None:
        self.dispatcher = Dispatcher(self.ledger, self.transport, self.clock)

    async def machine(self, name: str, **given: Any) -> WorkerRow:
        fields: dict[str, Any] = {"slots": 1, "handlers": (HANDLER,), "host": "box", "name": name, **given}
        row = self.machines[name] = WorkerRow(incarnation=name, seen_at_ms=self.clock.wall_ms, **fields)
        self.they.ready.add(name)
        await self.ledger.register(row)
        return row

    async def submit(self, count: int, **given: Any) -> list[str]:
        replies = await self.ledger.submit([a_request(content=str(n), **given) for n in range(count)])
        return [reply.job_id for reply in replies]

    async def tick(self) -> int:
        return await self.dispatcher.tick(self.clock.boot_ms_now)

    def out(self, name: str) -> list[str]:
        """The jobs on offer in the lane of a machine."""
        return [offer.job_id for offer in self.transport.lanes[lane_of(self.machines[name])]]

    async def take(self, name: str) -> str | None:
        """A machine fills one slot from its lane. Returns the job that it started."""
        while (offer := self.transport.take(lane_of(self.machines[name]))) is not None:
            answer = await self.they.ask(offer.job_id, offer.attempt, by=name)
            if isinstance(answer, Granted):
                self.running.setdefault(name, []).append(answer.lease)
                self.started.append(offer.job_id)
                return offer.job_id
        return None

    async def work(self, rounds: int) -> None:
        """All machines, again and again: end what runs, take what comes."""
        for _ in range(rounds):
            for name, row in self.machines.items():
                for lease in self.running.pop(name, []):
                    await self.they.succeed(lease)
                await self.tick()
                for _ in range(row.slots):
                    await self.take(name)
            self.clock.advance(0.1)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    clock = ManualClock()
    ledger = open_fleet_ledger(f"sqlite:///{tmp_path}/ledger.db", clock=clock, broker_prefix="pr")
    yield Stage(ledger, clock)
    await ledger.close()


async def test_a_lane_gets_two_offers_for_each_free_slot_once_and_the_first_ones_first(stage: Stage) -> None:
    jobs = await stage.submit(20)
    await stage.machine("w1", slots=2)
    await stage.machine("w2", slots=1)

    for _ in range(3):
        await stage.tick()

    assert stage.out("w1") == stage.out("w2") == jobs[:6]


async def test_an_urgent_job_waits_behind_what_is_out_and_behind_nothing_else(stage: Stage) -> None:
    jobs = await stage.submit(50)
    await stage.machine("w1", slots=1)
    await stage.tick()
    await stage.take("w1")
    [urgent] = await stage.submit(1, priority=9, asked="urgent")

    await stage.work(3)

    assert stage.started.index(urgent) <= 2
    assert set(stage.started) - {urgent} <= set(jobs[:3])


async def test_a_machine_that_is_busy_with_a_long_job_is_offered_nothing(stage: Stage) -> None:
    """So that whatever is urgent when it ends goes first."""
    await stage.submit(5)
    await stage.machine("w1")
    await stage.tick()
    await stage.take("w1")
    await stage.tick()
    stage.transport.purge()
    stage.clock.advance(700)
    await stage.machine("w1")

    await stage.tick()

    assert stage.out("w1") == []


async def test_the_oldest_job_is_one_in_ten_however_urgent_the_others(stage: Stage) -> None:
    [old] = await stage.submit(1)
    await stage.submit(60, priority=5, asked="urgent")
    await stage.machine("w1")

    await stage.work(15)

    assert old in stage.started[:12]


async def test_twenty_namespaces_share_a_machine_whatever_they_have_in_line(stage: Stage) -> None:
    names = [f"n{n:02}" for n in range(20)]
    for n, name in enumerate(names):
        await stage.submit(200 if n == 0 else 5, namespace=name, priority=9 if n == 0 else 0)
    await stage.machine("w1", slots=4, namespaces=tuple(names))

    await stage.work(20)

    whose = [(await stage.they.row(job_id)).namespace for job_id in stage.started[:60]]
    counts = Counter(whose)
    assert max(counts.values()) - min(counts[name] for name in names) <= 1
    for name in names:
        turns = [n for n, whom in enumerate(whose) if whom == name]
        assert max(later - sooner for sooner, later in pairwise(turns)) <= 2 * len(names)


async def test_a_namespace_with_long_jobs_gets_no_more_slots_than_the_others(stage: Stage) -> None:
    """Slots come free one by one; what is short ends at once, what is long stays."""
    for name in ("long", "short"):
        await stage.submit(60, namespace=name)
    for slots in range(1, 9):
        await stage.machine("w1", slots=slots, namespaces=("long", "short"))
        for _ in range(6):
            await stage.tick()
            job_id = await stage.take("w1")
            assert job_id is not None
            if (await stage.they.row(job_id)).namespace == "long":
                break
            await stage.they.succeed(stage.running["w1"].pop())

    assert len(stage.running["w1"]) <= 4


async def test_a_rate_is_kept_over_time_and_holds_up_no_other_kind(stage: Stage) -> None:
    fast = Handler(kind="poster", version="v1")
    await stage.submit(200)
    await stage.submit(200, kind="poster", asked="poster")
    await stage.machine("w1", slots=10, handlers=(HANDLER, fast))
    await stage.ledger.set_rate("preview", 2.0)

    await stage.work(100)  # ten seconds

    kinds = Counter([(await stage.they.row(job_id)).kind for job_id in stage.started])
    assert 18 <= kinds["preview"] <= 23
    assert kinds["poster"] == 200


async def test_a_rate_can_be_changed_and_lifted_while_it_runs(stage: Stage) -> None:
    await stage.submit(100)
    await stage.machine("w1", slots=10)
    await stage.ledger.set_rate("preview", 0)
    await stage.work(5)
    assert stage.started == []

    await stage.ledger.set_rate("preview", None)
    await stage.work(10)

    assert len(stage.started) == 100


async def test_a_broker_that_takes_no_offers_is_told_to_whoever_asks_why(stage: Stage) -> None:
    [job_id] = await stage.submit(1)
    await stage.machine("w1")

    async def stopped_at_ms() -> int | None:
        outlook = await stage.ledger.outlook(job_id)
        assert outlook is not None and outlook.offering is not None
        return outlook.offering.stopped_at_ms

    stage.transport.is_up = False
    for _ in range(2):
        with pytest.raises(TransportUnavailable):
            await stage.tick()
    assert await stopped_at_ms() == stage.clock.wall_ms
    stage.transport.is_up = True
    await stage.tick()
    assert await stopped_at_ms() is None


async def test_what_is_paused_is_not_offered_until_it_is_resumed(stage: Stage) -> None:
    jobs = await stage.submit(2)
    await stage.machine("w1")
    await stage.ledger.pause(PauseRequest(kind="preview"))
    await stage.tick()
    assert stage.out("w1") == []

    await stage.ledger.resume(PauseRequest(kind="preview"))
    await stage.tick()
    assert stage.out("w1") == jobs


async def test_an_offer_that_was_lost_comes_again_within_seconds_where_the_lane_is_empty_and_slots_are_free(
    stage: Stage,
) -> None:
    jobs = await stage.submit(2)
    await stage.machine("w1", slots=4)
    await stage.tick()
    stage.transport.purge()
    stage.clock.advance(4)
    await stage.tick()
    assert stage.out("w1") == []

    stage.clock.advance(2)
    await stage.tick()
    assert stage.out("w1") == jobs


async def test_an_offer_that_was_lost_comes_again_after_a_minute_where_no_slot_is_free(stage: Stage) -> None:
    await stage.submit(3)
    await stage.machine("w1", slots=1)
    await stage.tick()
    await stage.take("w1")
    left = stage.out("w1")
    assert left
    stage.transport.purge()
    stage.clock.advance(57)
    await stage.tick()
    assert set(left).isdisjoint(stage.out("w1"))


async def test_offers_that_a_machine_keeps_until_it_has_room_do_not_pile_up(stage: Stage) -> None:
    """It keeps one; what is offered again then lies in the lane, and is enough."""
    await stage.submit(2)
    row = await stage.machine("w1", slots=4)
    await stage.tick()
    while stage.transport.take(lane_of(row)) is not None:
        pass
    for _ in range(120):
        stage.clock.advance(1)
        await stage.machine("w1", slots=4)
        await stage.tick()

    assert len(stage.out("w1")) == 2


async def test_an_offer_that_waits_long_is_repeated_after_ten_minutes_and_granted_once(stage: Stage) -> None:
    jobs = await stage.submit(2)
    await stage.machine("w1")
    await stage.tick()
    for _ in range(10):
        stage.clock.advance(60)
        await stage.machine("w1")
        await stage.tick()
    assert stage.out("w1") == jobs * 2

    await stage.work(4)
    assert stage.started == jobs


async def test_after_the_broker_lost_everything_with_ten_thousand_jobs_in_line_each_starts_once(stage: Stage) -> None:
    for n in range(10):
        await stage.submit(1_000, asked=str(n))
    await stage.machine("w1", slots=40)
    await stage.tick()
    assert len(stage.out("w1")) == 80

    stage.transport.break_way(lose=True)
    await stage.tick()

    assert len(stage.out("w1")) == 80
    await stage.work(4)
    assert len(stage.started) == len(set(stage.started)) == 160


async def test_a_new_orchestrator_offers_everything_afresh(stage: Stage) -> None:
    jobs = await stage.submit(2)
    await stage.machine("w1")
    await stage.tick()
    stage.start_dispatcher()
    await stage.tick()
    assert stage.out("w1") == jobs * 2

    await stage.work(3)
    assert stage.started == jobs


async def test_what_could_not_be_sent_is_not_taken_for_offered(stage: Stage) -> None:
    jobs = await stage.submit(2)
    await stage.machine("w1")
    stage.transport.is_up = False
    with pytest.raises(TransportUnavailable):
        await stage.tick()
    stage.transport.is_up = True

    await stage.tick()

    assert stage.out("w1") == jobs


async def test_a_job_that_one_lane_does_not_take_is_shown_to_another_that_has_room(stage: Stage) -> None:
    """The first lane's machine died a moment ago, or has no disk; nobody has noticed yet."""
    jobs = await stage.submit(2)
    await stage.machine("dead", slots=9)
    await stage.tick()
    assert stage.out("dead") == jobs
    await stage.machine("gpu", capabilities=("gpu",), slots=2)
    stage.clock.advance(4)
    await stage.tick()
    assert stage.out("gpu") == []

    stage.clock.advance(1)
    await stage.tick()

    assert stage.out("gpu") == jobs
    stage.clock.advance(30)
    await stage.tick()
    assert stage.out("gpu") == jobs, "not again and again"


async def test_who_drains_or_breaks_is_offered_nothing(stage: Stage) -> None:
    await stage.submit(4)
    row = await stage.machine("w1")
    for state in ("draining", "broken"):
        await stage.ledger.register(structs.replace(row, state=state))
        stage.clock.advance(1)
        await stage.tick()
    assert stage.out("w1") == []

    await stage.ledger.register(row)
    stage.clock.advance(1)
    await stage.tick()
    assert len(stage.out("w1")) == 2


async def test_jobs_for_the_only_gpu_wait_while_it_is_away_for_a_minute(stage: Stage) -> None:
    await stage.machine("plain")
    gpu = await stage.machine("gpu", capabilities=("gpu",), slots=4)
    await stage.ledger.register(structs.replace(gpu, state="draining"))
    del stage.machines["gpu"]
    jobs = await stage.submit(20, needs=("gpu",))
    for _ in range(60):
        stage.clock.advance(1)
        await stage.work(1)
    assert stage.started == []
    assert {(await stage.they.row(job_id)).state for job_id in jobs} == {State.QUEUED}

    await stage.machine("gpu-again", capabilities=("gpu",), slots=4)
    await stage.work(8)

    assert sorted(stage.started) == sorted(jobs)
