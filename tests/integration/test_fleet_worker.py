"""A worker of a fleet, over a real broker: what it hears at once, how it ends, who may speak for it afterwards."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from deploy.local.rabbitmq import RabbitMQ
from planrun.core.drains import DrainRequest
from planrun.core.life import State

from ..fleet import Fleet
from ..lab import WorkerProcess, boottime

pytestmark = [pytest.mark.anyio, pytest.mark.needs("rabbitmq-server"), pytest.mark.timeout(120)]

LONG_LEASE_S = 60.0
ENDS_WITHIN_S = 10.0  # three, and the time that a busy machine takes to end processes


@pytest.fixture
async def fleet(tmp_path: Path, rabbitmq: RabbitMQ) -> AsyncIterator[Fleet]:
    fleet = Fleet(tmp_path, broker=rabbitmq, lease_s=LONG_LEASE_S)
    fleet.start_orchestrator()
    yield fleet
    await fleet.end()


async def test_what_a_job_says_is_seen_at_once_and_a_cancel_reaches_it_within_a_second(fleet: Fleet) -> None:
    """Long before a heartbeat, which goes every third of the lease."""
    fleet.start_worker()
    job_id = await fleet.submit("nap", {"seconds": 60})
    started = await fleet.started(job_id, 1)

    async def told() -> bool:
        row = await fleet.job(job_id)
        return bool(row.fraction) and "left" in (row.message or "")

    async def stopped() -> bool:
        return not (await fleet.job(job_id)).stopping

    await fleet.until(told, "progress is seen")
    assert boottime() - started.at < 5

    at = boottime()
    assert (await fleet.cancel(job_id)).canceled
    await fleet.until(stopped, "its process is known to be dead", timeout_s=5)
    assert boottime() - at < 1


async def test_a_drained_worker_ends_what_it_has_and_takes_no_more_until_that_is_undone(fleet: Fleet) -> None:
    worker = fleet.start_worker(slots=2)
    running = await fleet.submit("nap", {"seconds": 2})
    await fleet.started(running, 1)
    [row] = await fleet.ledger.workers()

    await fleet.ledger.drain(DrainRequest(incarnations=(row.incarnation,)))
    waiting = await fleet.submit("nap", {"seconds": 0.1})
    await fleet.until(lambda: said(worker, "is drained"), "it has heard of it")
    await fleet.ledger.undrain(DrainRequest(incarnations=(row.incarnation,)))
    await fleet.until(lambda: said(worker, "takes jobs again"), "it has heard of that, too")

    assert [each.state for each in await fleet.ended(running, waiting)] == [State.FINISHED] * 2
    assert len(fleet.starts()) == 2
    await fleet.ledger.drain(DrainRequest(incarnations=(row.incarnation,)))
    assert worker.wait() == 0


async def test_on_sigterm_what_runs_and_what_is_held_goes_to_others_at_once(fleet: Fleet) -> None:
    first = fleet.start_worker()
    job_id = await fleet.submit("nap", {"seconds": 60})
    await fleet.started(job_id, 1)
    fleet.start_worker()
    await fleet.ready(2)

    at = first.signal(signal.SIGTERM)

    second = await fleet.started(job_id, 2)
    assert second.at - at < 2
    assert first.wait() == 0
    row = await fleet.job(job_id)
    assert (row.handbacks, row.losses, row.failures) == (1, 0, 0)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("is_busy", [True, False])
async def test_a_deploy_does_not_wait_for_an_orchestrator_that_is_away(
    fleet: Fleet, how: signal.Signals, is_busy: bool
) -> None:
    worker = fleet.start_worker()
    await fleet.ready(1)
    job_id = await fleet.submit("nap", {"seconds": 60})
    await fleet.started(job_id, 1)
    idle = fleet.start_worker()
    await fleet.ready(2)
    await fleet.until(lambda: said(idle, "takes nap"), "it is up")
    assert fleet.orchestrator is not None
    if how == signal.SIGKILL:
        fleet.kill_orchestrator()
    else:
        fleet.orchestrator.signal(how)

    ending = worker if is_busy else idle
    at = ending.signal(signal.SIGTERM)

    assert ending.wait() == 0, ending.text
    assert boottime() - at < ENDS_WITHIN_S
    if how == signal.SIGSTOP:
        fleet.orchestrator.signal(signal.SIGCONT)
    else:
        fleet.start_orchestrator()
    if is_busy:  # nobody was told, so that its lock proves it dead; one that was stopped may hear of it later
        fleet.start_worker(instead_of=worker)
        await fleet.started(job_id, 2)
        row = await fleet.job(job_id)
        assert (row.losses, row.handbacks) in ([(1, 0)] if how == signal.SIGKILL else [(1, 0), (0, 1)])


async def test_a_killed_worker_that_is_started_again_proves_its_death_and_nobody_else_can(fleet: Fleet) -> None:
    first = fleet.start_worker()
    job_id = await fleet.submit("nap", {"seconds": 60})
    await fleet.started(job_id, 1)
    [dead] = await fleet.ledger.workers()
    first.kill()
    fleet.start_worker()  # of another machine, with the same token
    await fleet.ready(2)
    assert await fleet.ledger.bury_own(dead.incarnation, secret="guessed", who="a thief") is None
    assert len(await fleet.ledger.held(dead.incarnation)) == 1

    again = fleet.start_worker(instead_of=first)
    await fleet.until(lambda: said(again, "/v1/fleet"), "it is up")

    at = boottime()
    assert (await fleet.started(job_id, 2)).at - at < 2
    assert (await fleet.job(job_id)).losses == 1
    await fleet.until(lambda: said(again, "its lock was free"), "it tells")
    kept = list((fleet.folder / "worker-0").rglob("*.secret"))
    assert [oct(path.stat().st_mode & 0o777) for path in kept] == ["0o600"]  # its own; that of the dead has gone


@pytest.mark.parametrize("health", ["", "true"])
async def test_a_worker_that_broke_says_so_and_its_neighbours_wait_unless_the_machine_is_found_well(
    fleet: Fleet, health: str
) -> None:
    first = fleet.start_worker(slots=2)
    neighbour = await fleet.submit("nap", {"seconds": 4})
    await fleet.started(neighbour, 1)
    await fleet.submit("hurl", {"error": "fatal", "on_attempts": 1})
    assert first.wait() == 70
    [row] = await fleet.ledger.workers()
    assert row.state == "broken"

    successor = fleet.start_worker(instead_of=first, slots=2, health=health)
    if health:
        assert (await fleet.started(neighbour, 2)).attempt == 2
        return
    await fleet.until(lambda: said(successor, "starts"), "it works")  # on the job that was fatal
    assert len(await fleet.ledger.held(row.incarnation)) == 1
    assert len(fleet.starts(neighbour)) == 1


async def said(worker: WorkerProcess, words: str) -> bool:
    return words in worker.text
