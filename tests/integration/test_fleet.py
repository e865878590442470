"""A fleet over real services: what is submitted over HTTP runs on another worker, once, and its result lies in S3."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from deploy.local.rabbitmq import RabbitMQ
from deploy.local.s3 import Ministack
from planrun import AsyncClient
from planrun.core.life import State

from ..fleet import Fleet

pytestmark = [pytest.mark.anyio, pytest.mark.needs("rabbitmq-server")]


@pytest.fixture
async def fleet(tmp_path: Path, rabbitmq: RabbitMQ, ministack: Ministack) -> AsyncIterator[Fleet]:
    fleet = Fleet(tmp_path, broker=rabbitmq, s3=ministack)
    yield fleet
    await fleet.end()


async def test_a_job_goes_out_over_the_broker_and_its_file_into_the_bucket(fleet: Fleet) -> None:
    fleet.start_orchestrator()
    fleet.start_worker()
    fleet.start_worker()
    await fleet.ready(2)

    jobs = [await fleet.submit("render", {"bytes": 1000 + n, "seconds": 1}) for n in range(6)]

    assert await fleet.all_ended_once() == 6
    assert not fleet.stored(), "nothing lies beside the ledger"
    assert len({(await fleet.job(job_id)).worker for job_id in jobs}) == 2


async def test_a_rate_is_changed_while_the_orchestrator_runs(fleet: Fleet) -> None:
    fleet.start_orchestrator("--rate", "render=0/s")
    fleet.start_worker()
    await fleet.ready(1)
    job = await fleet.submit("render", {"bytes": 10, "seconds": 0})
    assert fleet.planrun("rate") == "kind    at most\nrender  0/s\n"
    assert (await fleet.job(job)).state is State.QUEUED

    fleet.planrun("rate", "render", "any")

    await fleet.ended(job)
    assert await fleet.ledger.rates() == {}


async def test_what_a_job_prints_on_another_machine_is_seen_while_it_runs(fleet: Fleet) -> None:
    fleet.start_orchestrator()
    worker = fleet.start_worker()
    await fleet.ready(1)
    job_id = await fleet.submit("quit", {"code": 3, "seconds": 60}, max_attempts=1)
    async with AsyncClient(fleet.remote_url) as client:
        async for part in client.follow_logs(job_id):
            assert part.text == "leaving\n"
            break
        assert (await client.show(job_id)).state is State.RUNNING
        assert await client.logs(job_id) == "leaving\n"
        worker.kill()  # with its log
        assert await client.logs(job_id, attempt=1) == "leaving\n"


async def test_a_checkpoint_and_what_a_job_printed_get_from_one_machine_to_another(fleet: Fleet) -> None:
    fleet.start_orchestrator()
    workers = {f"worker-{n}": fleet.start_worker() for n in range(2)}
    await fleet.ready(2)
    steps = [await fleet.submit("steps", {"steps": 8, "step_s": 0.5, "n": n}) for n in range(2)]
    await fleet.until(lambda: have_checkpoints(fleet, steps), "their checkpoints lie in the bucket")
    noisy = await fleet.submit("quit", {"code": 3}, max_attempts=1)
    async with AsyncClient(fleet.remote_url) as client:
        resumed = await client.show(steps[0])
        said = await client.why(resumed.job_id)
        assert (said.cause, (await client.why(noisy)).cause) == ("running", "busy")
        assert resumed.worker is not None
        assert resumed.worker in said.sentence

        workers[resumed.worker].signal(signal.SIGTERM)

        [row, _, failed] = await fleet.ended(*steps, noisy)
        value = (await fleet.result(resumed.job_id)).value
        assert (row.state, row.attempt, failed.state) == (State.FINISHED, 2, State.FAILED), fleet.last_words()
        assert value["began"] > 0
        assert value["done"] == 8
        assert await client.logs(noisy) == "leaving\n"
        assert [part.text async for part in client.follow_logs(noisy)] == ["leaving\n"]
    assert [path for name in workers for path in (fleet.folder / name).rglob("remote.logs/*/*")] == []


async def have_checkpoints(fleet: Fleet, jobs: list[str]) -> bool:
    return all([(await fleet.job(job_id)).checkpoint is not None for job_id in jobs])


async def test_a_job_that_came_before_the_fleet_was_known_fails_by_name_once_it_is(fleet: Fleet) -> None:
    fleet.start_orchestrator("--warm-after-s", "4")
    hopeless = await fleet.submit("nap", needs=("gpu:h100",))
    fleet.start_worker()
    assert (await fleet.job(hopeless)).state is State.QUEUED

    await fleet.ended(hopeless, timeout_s=90)

    error = (await fleet.result(hopeless)).error
    assert error is not None
    assert "gpu:h100" in error.message
