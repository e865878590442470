"""C77: for prepared situations, the stated cause is the true one. Each one is made by the ledger's own verbs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from planrun.client import AsyncClient
from planrun.core import why as decision
from planrun.core.errors import UnknownJob
from planrun.core.life import Outcome
from planrun.core.messages import Handler
from planrun.core.pauses import PauseRequest
from planrun.core.routing import CAPABILITY_TTL_MS
from planrun.core.why import Cause, Why
from planrun.ledger.verbs import outlook
from planrun.lockfile import WorkerLock
from planrun.wiring import open_ledger, open_store
from tests.contract.actors import HANDLER, Actors
from tests.contract.manual_clock import ManualClock

pytestmark = pytest.mark.anyio


@pytest.fixture
async def they(url: str) -> AsyncIterator[Actors]:
    clock = ManualClock()
    ledger = open_ledger(url, clock=clock)
    yield Actors(ledger, clock)
    await ledger.close()


@pytest.fixture
def client(they: Actors, url: str) -> AsyncClient:
    return AsyncClient.over(they.ledger, open_store(url), url=url, clock=they.clock)


async def delayed(they: Actors) -> str:
    return (await they.submit(delay_s=30)).job_id


async def paused(they: Actors) -> str:
    await they.ledger.pause(PauseRequest(kind="preview", who="ann", why="new card"))
    they.clock.advance(60)
    return (await they.submit(delay_s=5)).job_id


async def behind_what_is_paused(they: Actors) -> str:
    """What nobody may start stands in nobody's way."""
    await they.register("w1", handlers=(HANDLER, Handler(kind="poster", version="v1")))
    await they.submit(kind="poster", priority=2)
    await they.ledger.pause(PauseRequest(kind="poster"))
    return (await they.submit()).job_id


async def backing_off(they: Actors) -> str:
    lease = await they.running()
    await they.fail(lease, message="disk full")
    return lease.job_id


async def lost_twice(they: Actors) -> str:
    lease = await they.running()
    await they.expire_all()
    await they.grant(lease.job_id)
    await they.expire_all()
    return lease.job_id


async def without_any_worker(they: Actors) -> str:
    await they.register("w1")
    they.clock.advance(CAPABILITY_TTL_MS / 1000)
    return (await they.submit()).job_id


async def without_a_capability(they: Actors) -> str:
    job_id = (await they.submit(needs=("gpu",))).job_id
    await they.register("w1")
    return job_id


async def behind_a_silent_worker(they: Actors) -> str:
    await they.register("w1")
    they.clock.advance(120)
    return (await they.submit()).job_id


async def behind_a_worker_that_left(they: Actors) -> str:
    """It took no more work, as it was asked to, and is not there any more: nothing is lost with it."""
    await they.register("w1", state="draining")
    they.clock.advance(120)
    return (await they.submit()).job_id


async def behind_a_draining_worker(they: Actors) -> str:
    await they.register("w1", state="draining")
    return (await they.submit()).job_id


async def with_all_slots_taken(they: Actors) -> str:
    await they.register("w1", slots=2)
    for _ in range(2):
        await they.running()
    return (await they.submit()).job_id


async def behind_others(they: Actors) -> str:
    """The line is the worker's: other kinds that it runs stand in it, what it cannot run does not."""
    await they.register("w1", handlers=(HANDLER, Handler(kind="poster", version="v1")))
    await they.submit(priority=1)
    job_id = (await they.submit(priority=1)).job_id
    await they.submit(priority=1)
    await they.submit(kind="poster", priority=2)
    await they.submit(kind="poster", priority=0)
    await they.submit(kind="other", priority=9)
    await they.submit(needs=("gpu",), priority=9)
    await they.submit(priority=9, delay_s=5)
    return job_id


async def behind_a_stream_of_more_urgent_ones(they: Actors) -> str:
    """Two are older, so it is the third that starts by its age."""
    await they.register("w1")
    for priority in (-9, 5):
        await they.submit(priority=priority)
    job_id = (await they.submit()).job_id
    for _ in range(30):
        await they.submit(priority=1)
    return job_id


async def first_in_line(they: Actors) -> str:
    await they.register("w1")
    return (await they.submit()).job_id


async def running(they: Actors) -> str:
    lease = await they.running()
    they.clock.advance(12)
    return lease.job_id


async def running_on_a_silent_worker(they: Actors) -> str:
    lease = await they.running(by="w1")
    they.clock.advance(100)
    return lease.job_id


async def failed(they: Actors) -> str:
    lease = await they.running()
    await they.fail(lease, Outcome.PERMANENT, message="no such filter")
    they.clock.advance(300)
    return lease.job_id


async def finished(they: Actors) -> str:
    lease = await they.running()
    await they.succeed(lease)
    return lease.job_id


async def stopping(they: Actors) -> str:
    lease = await they.running()
    await they.cancel(lease.job_id, who="ann", why="wrong file")
    return lease.job_id


SITUATIONS: list[tuple[Callable[[Actors], Awaitable[str]], Cause, str]] = [
    (delayed, Cause.DELAYED, "delayed by whoever submitted it, for another 30 s"),
    (paused, Cause.PAUSED, "kind preview is paused by ann: new card (for 60 s); let it go with planrun resume preview"),
    (behind_what_is_paused, Cause.NEXT, "next in line for name-of-w1"),
    (backing_off, Cause.BACK_OFF, "waits another 2.0 s after failure 1 of 4 (disk full)"),
    (lost_twice, Cause.BACK_OFF, "waits another 2.0 s after lost worker 2 of 8 ("),
    (without_any_worker, Cause.NO_WORKER, "none was seen in the last hour; start one with planrun worker MODULE"),
    (without_a_capability, Cause.UNSUPPORTED, "could run it: kind preview v1 needs gpu, which no worker has"),
    (behind_a_silent_worker, Cause.FLEET_LOST, "name-of-w1 is lost, last seen 2 min ago; start one"),
    (behind_a_worker_that_left, Cause.FLEET_LOST, "name-of-w1 is gone, last seen 2 min ago; start one"),
    (behind_a_draining_worker, Cause.FLEET_LOST, "name-of-w1 is draining and takes no more work"),
    (with_all_slots_taken, Cause.BUSY, "waits for a slot: 2 of 2 are taken on name-of-w1"),
    (behind_others, Cause.BEHIND, "behind 2 jobs (1 of higher priority, 1 older)"),
    (
        behind_a_stream_of_more_urgent_ones,
        Cause.BEHIND,
        "behind 31 jobs (31 of higher priority); by its age it is one of the next 30 starts",
    ),
    (first_in_line, Cause.NEXT, "next in line for name-of-w1"),
    (running, Cause.RUNNING, "running on name-of-w1 for 12 s, attempt 1"),
    (running_on_a_silent_worker, Cause.WORKER_LOST, "name-of-w1 is lost; it goes back in line as soon as any worker"),
    (failed, Cause.ENDED, "failed 5 min ago (permanent): no such filter"),
    (finished, Cause.ENDED, "finished 0.0 s ago"),
    (stopping, Cause.STOPPING, "canceled by ann: wrong file; its processes on name-of-w1 are being stopped"),
]


@pytest.mark.parametrize(
    ("prepare", "cause", "words"), SITUATIONS, ids=[prepare.__name__ for prepare, _, _ in SITUATIONS]
)
async def test_c77_the_stated_cause_is_the_true_one(
    they: Actors, client: AsyncClient, prepare: Callable[[Actors], Awaitable[str]], cause: Cause, words: str
) -> None:
    job_id = await prepare(they)

    found = await client.why(job_id)

    assert (found.job_id, found.cause) == (job_id, cause)
    assert words in found.sentence


async def test_c77_the_one_that_is_next_is_the_one_that_is_offered_first(they: Actors, client: AsyncClient) -> None:
    """The answer follows the order of the offers, whatever it is."""
    await they.register("w1")
    for priority in (0, 3, 0, 3, -2):
        await they.submit(priority=priority)

    line = [await client.why(job_id) for job_id in await they.line()]

    assert [found.cause for found in line] == [Cause.NEXT] + [Cause.BEHIND] * 4
    assert [behind(found) for found in line[1:]] == [1, 2, 3, 4]


async def test_a_long_line_is_not_counted_to_its_end(
    they: Actors, client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (outlook, decision):
        monkeypatch.setattr(module, "AHEAD_MAX", 3)
    await they.register("w1")
    jobs = [(await they.submit()).job_id for _ in range(6)]

    found = [(await client.why(job_id)).sentence for job_id in jobs[2:]]

    assert found == ["behind 2 jobs (2 older)", *["behind 3 jobs or more"] * 3]


async def test_a_worker_whose_lock_is_free_is_lost_at_once(they: Actors, client: AsyncClient, tmp_path: Path) -> None:
    lock = WorkerLock.acquire(tmp_path / "locks", "w1")
    identity = {"lock_file": str(lock.path), "lock_device": lock.device, "lock_inode": lock.inode}
    await they.register("w1", **identity)
    job_id = (await they.submit()).job_id
    alive = await client.why(job_id)
    lock.close()

    assert (alive.cause, (await client.why(job_id)).cause) == (Cause.NEXT, Cause.FLEET_LOST)


async def test_nobody_knows_why_a_job_that_is_not_there_does_not_run(client: AsyncClient) -> None:
    with pytest.raises(UnknownJob):
        await client.why("nowhere")


def behind(found: Why) -> int:
    return int(found.sentence.split()[1])
