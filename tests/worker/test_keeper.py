"""The heartbeat of all leases survives whatever goes wrong with one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from planrun.clock import SystemClock
from planrun.core.flows import Notice
from planrun.core.messages import Lease, RenewRequest, Standing
from planrun.transport.contract import WorkerTransport
from planrun.worker.keeper import Holding, Keeper
from planrun.worker.options import WorkerOptions
from tests.contract.manual_clock import ManualClock

pytestmark = pytest.mark.anyio


class Choking:
    """A transport that no progress report gets through to."""

    async def beat(self, request: RenewRequest) -> list[Standing]:
        if any(beat.message for beat in request.beats):
            raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")
        return [Standing(status="held") for _ in request.beats]


async def test_a_heartbeat_that_a_fault_swallows_is_followed_by_one_without_the_news(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = SystemClock.open_system()
    keeper = Keeper(cast("WorkerTransport", Choking()), clock, WorkerOptions(modules=(), lease_s=60), "w1")
    holdings: list[Any] = [
        keeper.hold(Lease(job_id=f"j{n}", attempt=1, token=n), asked_ms=clock.boot_ms() - 50_000) for n in (1, 2)
    ]
    trusted = [holding.belief.trusted_until_ms for holding in holdings]
    holdings[0].say(0.5, "the news")

    await keeper.tick()
    assert [holding.belief.trusted_until_ms for holding in holdings] == trusted
    assert "a heartbeat failed" in caplog.text

    await keeper.tick()
    assert all(holding.belief.trusted_until_ms > trusted[0] + 40_000 for holding in holdings)


async def test_what_a_job_says_first_does_not_wait_for_the_next_renewal() -> None:
    """A lease of a minute is renewed every 20 seconds; whoever watches a job sees its progress after one."""
    said = asyncio.Event()

    class Listening:
        async def beat(self, request: RenewRequest) -> list[Standing]:
            if any(beat.fraction is not None for beat in request.beats):
                said.set()
            return [Standing(status="held") for _ in request.beats]

    clock = SystemClock.open_system()
    keeper = Keeper(cast("WorkerTransport", Listening()), clock, WorkerOptions(modules=(), lease_s=60), "w1")
    stop = asyncio.Event()
    running = asyncio.create_task(keeper.run(stop))
    holding = keeper.hold(Lease(job_id="j", attempt=1, token=1), asked_ms=clock.boot_ms())
    for _ in range(5):  # it looks when to renew, before the job has said anything
        await asyncio.sleep(0)
    holding.say(0.1, None)

    await asyncio.wait_for(said.wait(), 10)
    stop.set()
    await running


class Saying:
    """A transport whose next heartbeat is answered like this, or only confirmed."""

    def __init__(self, answer: Sequence[Standing] | None = None) -> None:
        self.answer = answer
        self.beats = 0

    async def beat(self, _: RenewRequest) -> Sequence[Standing] | None:
        self.beats += 1
        return self.answer


def a_holding(transport: Saying, clock: ManualClock) -> tuple[Keeper, Holding]:
    keeper = Keeper(cast("WorkerTransport", transport), clock, WorkerOptions(modules=(), lease_s=60), "w1")
    return keeper, keeper.hold(Lease(job_id="j", attempt=1, token=7), asked_ms=clock.boot_ms())


async def test_a_heartbeat_that_has_arrived_extends_trust_from_when_it_was_sent() -> None:
    clock = ManualClock()
    keeper, holding = a_holding(Saying(), clock)
    clock.advance(59)

    await keeper.tick()
    clock.advance(59)

    assert holding.may_act(clock.boot_ms())


async def test_trust_in_a_fresh_lease_counts_from_when_it_was_asked_for() -> None:
    clock = ManualClock()
    keeper = Keeper(cast("WorkerTransport", Saying()), clock, WorkerOptions(modules=(), lease_s=60), "w1")
    holding = keeper.hold(Lease(job_id="j", attempt=1, token=7), asked_ms=clock.boot_ms() - 50_000)
    clock.advance(10)

    assert not holding.may_act(clock.boot_ms())


@pytest.mark.parametrize("is_alone", [True, False])
async def test_a_lease_that_was_granted_late_is_renewed_at_once(is_alone: bool) -> None:
    """It was asked for again, and has run since the first time."""
    heard = asyncio.Event()

    class Listening:
        async def beat(self, request: RenewRequest) -> list[Standing]:
            if any(beat.lease.job_id == "late" for beat in request.beats):
                heard.set()
            return [Standing(status="held") for _ in request.beats]

    clock = SystemClock.open_system()
    keeper = Keeper(cast("WorkerTransport", Listening()), clock, WorkerOptions(modules=(), lease_s=60), "w1")
    if not is_alone:
        keeper.hold(Lease(job_id="other", attempt=1, token=1), asked_ms=clock.boot_ms())
    stop = asyncio.Event()
    running = asyncio.create_task(keeper.run(stop))
    await asyncio.sleep(0)
    keeper.hold(Lease(job_id="late", attempt=1, token=2), asked_ms=clock.boot_ms() - 59_000)

    await asyncio.wait_for(heard.wait(), 10)
    stop.set()
    await running


async def test_only_an_answer_revives_a_lease_past_its_deadline() -> None:
    clock = ManualClock()
    transport = Saying()
    keeper, holding = a_holding(transport, clock)
    clock.advance(60)

    await keeper.tick()
    assert not holding.may_act(clock.boot_ms())

    transport.answer = [Standing(status="held")]
    await keeper.tick()
    assert holding.may_act(clock.boot_ms())


async def test_whoever_was_told_that_it_is_over_does_not_act_however_long_it_might_trust_itself() -> None:
    clock = ManualClock()
    transport = Saying([Standing(status="canceled", why="ann")])
    keeper, holding = a_holding(transport, clock)
    assert holding.may_act(clock.boot_ms())

    await keeper.tick()
    assert not holding.may_act(clock.boot_ms())
    assert not keeper.trusts(7)


async def test_the_first_word_that_ends_a_lease_stands() -> None:
    ended: list[Standing | None] = []
    _, holding = a_holding(Saying(), ManualClock())
    holding.on_end = lambda: ended.append(holding.verdict)

    for status in ("canceled", "lost"):
        holding.end(Standing(status=status))

    assert ended == [holding.verdict] == [Standing(status="canceled")]


async def test_a_notice_that_says_how_a_lease_stands_ends_it_at_once() -> None:
    transport = Saying()
    keeper, holding = a_holding(transport, ManualClock())

    await keeper.hear([Notice(lease=holding.lease, standing=Standing(status="canceled", why="ann"))])

    assert holding.verdict == Standing(status="canceled", why="ann")
    assert (transport.beats, list(keeper.leases)) == (0, [])


async def test_where_nobody_says_how_a_lease_ended_a_heartbeat_asks() -> None:
    transport = Saying([Standing(status="lost")])
    keeper, holding = a_holding(transport, ManualClock())

    await keeper.hear([Notice(lease=holding.lease)])

    assert holding.verdict == Standing(status="lost")


@pytest.mark.parametrize(
    "notice",
    [
        Notice(lease=Lease(job_id="j", attempt=1, token=7), standing=Standing(status="held")),
        Notice(lease=Lease(job_id="j", attempt=2, token=7), standing=Standing(status="lost")),
        Notice(lease=Lease(job_id="j", attempt=1, token=8)),
        Notice(drained=True),
    ],
)
async def test_a_word_about_something_else_ends_nothing(notice: Notice) -> None:
    transport = Saying()
    keeper, holding = a_holding(transport, ManualClock())

    await keeper.hear([notice])

    assert (holding.verdict, transport.beats) == (None, 0)
