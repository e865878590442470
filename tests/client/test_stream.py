"""Following a job: each change once, the time left, and the answer at the end, for as many as ask."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from typing import Any

import pytest

from planrun.client import AsyncClient, AsyncJobHandle, Client, JobHandle, Progress
from planrun.core.errors import Invalid, UnknownJob, WaitTimeout
from planrun.core.life import Outcome, State
from planrun.core.messages import Beat, Lease, RenewRequest
from planrun.ledger.contract import Ledger
from planrun.orchestrator.sweeper import Sweeper
from planrun.wiring import open_ledger, open_store
from tests.client.stand_in import Hands, open_world
from tests.contract.actors import Actors
from tests.contract.manual_clock import ManualClock

pytestmark = pytest.mark.anyio


@pytest.fixture
async def they(url: str) -> AsyncIterator[Actors]:
    clock = ManualClock()
    ledger = open_ledger(url, clock=clock)
    yield Actors(ledger, clock)
    await ledger.close()


async def say(hands: Hands, lease: Lease, fraction: float, message: str = "") -> None:
    beat = Beat(lease=lease, fraction=fraction, message=message)
    await hands.ledger.renew(RenewRequest(incarnation=hands.incarnation, beats=(beat,), lease_ms=60_000))


async def test_a_stream_yields_each_change_once_and_ends_with_the_answer(url: str) -> None:
    async with open_world(url) as (client, hands):
        job = await client.submit("preview")
        stream = job.stream(timeout_s=30, every_s=0)
        first = await anext(stream)
        granted = await hands.take(job.id)
        running = await anext(stream)
        await say(hands, granted.lease, 0.5, "half")
        half = await anext(stream)
        await hands.settle(granted.lease, Outcome.SUCCESS, value=7)
        rest = [seen async for seen in stream]

        assert [seen.job.state for seen in (first, running, half)] == [State.QUEUED, State.RUNNING, State.RUNNING]
        assert (half.job.fraction, half.job.message, half.answer) == (0.5, "half", None)
        assert [(seen.job.state, seen.answer.value if seen.answer else None) for seen in rest] == [(State.FINISHED, 7)]


async def test_c61_many_who_follow_see_one_end(url: str) -> None:
    async def last(job: AsyncJobHandle) -> Progress:
        return [seen async for seen in job.stream(timeout_s=30)][-1]

    async with open_world(url) as (client, hands):
        job = await client.submit("preview")
        following = [asyncio.create_task(last(job)) for _ in range(30)]
        await asyncio.sleep(0)
        await hands.finish(job.id, value=1)

        assert len({repr(seen.answer) for seen in await asyncio.gather(*following)}) == 1
        assert [seen.answer async for seen in job.stream()] == [await job.result()]


async def test_a_stream_gives_up_at_its_timeout_and_refuses_what_cannot_be(url: str) -> None:
    async with open_world(url) as (client, _):
        job = await client.submit("preview")
        with pytest.raises(WaitTimeout, match="goes on"):
            async for _ in job.stream(timeout_s=0.1):
                pass
        for wrong in ({"timeout_s": -1.0}, {"every_s": float("nan")}):
            with pytest.raises(Invalid):
                await anext(client.stream(job.id, **wrong))
        with pytest.raises(UnknownJob):
            await anext(client.stream("nowhere"))


async def test_the_time_left_counts_from_where_the_attempt_began(they: Actors, url: str) -> None:
    """C77's neighbour: a resumed job is not as fast as its checkpoint makes it look, and a jump back starts anew."""
    client = AsyncClient.over(they.ledger, open_store(url), url=url, clock=they.clock)
    lease = await they.running()

    async def said(fraction: float, *, after_s: float) -> float | None:
        they.clock.advance(after_s)
        beat = Beat(lease=lease, fraction=fraction)
        await they.ledger.renew(RenewRequest(incarnation="w1", beats=(beat,), lease_ms=600_000))
        return (await anext(client.stream(lease.job_id))).left_s

    assert await said(0.8, after_s=1) is None
    assert await said(0.9, after_s=60) == pytest.approx(60, abs=0.1)
    assert await said(0.1, after_s=1) is None
    assert await said(0.4, after_s=30) == pytest.approx(60, abs=0.1)


async def test_a_stream_without_a_loop_and_the_history_as_it_grows(url: str) -> None:
    async with open_world(url) as (client, hands):
        job = await client.submit("preview")
        await hands.finish(job.id)

    def follow() -> tuple[list[State], list[str]]:
        with Client(url) as other:
            states = [seen.job.state for seen in other.job(job.id).stream(timeout_s=30)]
            return states, [event.what for event in other.follow_events(job.id)]

    states, history = await asyncio.to_thread(follow)

    assert (states, history[0], "success" in history) == ([State.FINISHED], "submitted", True)


async def test_whoever_follows_the_history_sees_what_is_added(url: str) -> None:
    async with open_world(url) as (client, hands):
        job = await client.submit("preview")
        history = client.follow_events(job.id)
        seen = [(await anext(history)).what]
        await hands.finish(job.id)
        seen += [event.what async for event in history]

        assert seen == [event.what for event in await job.events()]
        assert len(seen) > 2


async def test_whoever_waits_sweeps_only_when_time_alone_may_have_changed_something(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks: list[int] = []
    tick = Sweeper.tick

    async def counted(sweeper: Sweeper, now_ms: int) -> int:
        ticks.append(now_ms)
        return await tick(sweeper, now_ms)

    monkeypatch.setattr(Sweeper, "tick", counted)
    async with open_world(url) as (client, hands):
        await hands.take((await client.submit("preview")).id)  # somebody runs, and renews in time
        job = await client.submit("preview")
        with pytest.raises(WaitTimeout):
            await job.wait(timeout_s=3)

        assert len(ticks) == 1


async def test_whoever_stood_still_lets_holders_renew_before_a_lease_is_called_over(
    they: Actors, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A laptop that was closed for an hour: the worker on it slept, too."""
    swept: list[int] = []

    async def sweep(client: AsyncClient) -> None:
        swept.append(they.clock.boot_ms())

    monkeypatch.setattr(AsyncClient, "_sweep", sweep)
    lease = await they.running()
    naps_s = [3600.0, *[1.0] * 8]

    class Napping:
        def __getattr__(self, verb: str) -> Any:
            return getattr(they.ledger, verb)

        async def changed(self, *, timeout_s: float, about: str | None = None) -> None:
            await asyncio.sleep(0)
            they.clock.advance(naps_s.pop(0))

    napping: Any = Napping()
    client = AsyncClient.over(napping, open_store(url), url=url, clock=they.clock)
    began_ms = they.clock.boot_ms()
    with pytest.raises(IndexError):
        await client.wait(lease.job_id)

    first, second, *_ = swept
    assert first == began_ms  # the machine may have been rebooted since
    assert 3605 <= (second - began_ms) / 1000 <= 3607


# --- ids ---


async def test_a_job_is_found_by_its_id_then_by_a_request_id_then_by_its_beginning(url: str) -> None:
    async with AsyncClient(url) as client:
        first = await client.submit("preview")
        shadow = await client.submit("preview", request_id=first.id)  # says the id of another job
        named = await client.submit("preview", request_id=first.id[:8])

        assert (await client.show(first.id)).job_id == first.id
        assert (await client.show(first.id[:8])).job_id == named.id
        assert (await client.show(first.id[:9])).job_id == first.id
        assert (await client.show(shadow.id[:12].upper())).job_id == shadow.id
        assert (await client.job(shadow.id[:12])).id == shadow.id
        with pytest.raises(UnknownJob):
            await client.show(first.id[:5])


async def test_a_beginning_that_several_ids_have_names_them(url: str) -> None:
    class Alike:
        """A ledger with ids that begin alike."""

        def __init__(self, ledger: Ledger) -> None:
            self._ledger = ledger

        def __getattr__(self, verb: str) -> Any:
            return getattr(self._ledger, verb)

        async def job_ids(self, namespace: str | None, prefix: str, limit: int) -> list[str]:
            return [f"{prefix}-{n}" for n in range(9)][:limit]

    async with open_world(url) as (client, hands):
        alike: Any = Alike(hands.ledger)
        other = AsyncClient.over(alike, hands.store, url=url, clock=client._clock)
        with pytest.raises(Invalid, match=r"abcdef-0, abcdef-1, .*abcdef-4 and others; give more"):
            await other.show("abcdef")


# --- drain ---


async def test_a_drain_that_leaves_open_jobs_without_a_worker_has_to_be_forced(url: str) -> None:
    async with open_world(url) as (client, _):
        assert await client.drain("w1") == ["w1"]  # nothing is open
        assert await client.undrain("w1", who="bob") == ["w1"]
        await client.submit("preview")
        for name in ("w1", ""):
            with pytest.raises(Invalid, match=r"preview v1: 1 open job.*start a worker.*--force"):
                await client.drain(name)
        assert [row.state for row in await client.workers()] == ["ready"]

        assert await client.drain("w1", who="ann", why="new disk", force=True) == ["w1"]
        assert await client.drain("w1") == []
        assert [(drain.who, drain.undone_who) for drain in await client.drains()] == [("ann", ""), ("", "bob")]


async def test_nobody_is_drained_under_a_name_that_no_live_worker_has(url: str) -> None:
    async with open_world(url) as (client, _):
        with pytest.raises(Invalid, match="no worker w2 lives; those that do: w1"):
            await client.drain("w2", force=True)


# --- parity ---

APART = {"over", "blocking", "look_aside"}  # how each is made, not what it does


def public(home: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(member)
        for name, member in inspect.getmembers(home, callable)
        if not name.startswith("_") and name not in APART
    }


@pytest.mark.parametrize(("asynchronous", "synchronous"), [(AsyncClient, Client), (AsyncJobHandle, JobHandle)])
def test_both_clients_have_equal_verbs_with_equal_parameters(asynchronous: type, synchronous: type) -> None:
    theirs, ours = public(asynchronous), public(synchronous)

    assert set(theirs) == set(ours)
    for name, signature in theirs.items():
        assert list(signature.parameters.values()) == list(ours[name].parameters.values()), name
