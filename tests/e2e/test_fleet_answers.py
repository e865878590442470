"""How an orchestrator tells applications: by webhook where an operator allows it, and into queues of its broker."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.rabbitmq import NEEDS, RabbitMQ
from planrun import AsyncClient, Client, Invalid
from tests.e2e.test_cli import eventually
from tests.orchestrator.test_answers_once import SECRET, Application

from .fleet import FleetOfOneBox, opened

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FleetOfOneBox]:
    monkeypatch.delenv("PLANRUN_TOKEN", raising=False)
    with opened(tmp_path, os.environ | {"PLANRUN_WEBHOOK_SECRET": SECRET}) as fleet:
        yield fleet


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Application]:
    application = Application(tmp_path)
    application.start()
    yield application
    application.kill()


@pytest.mark.needs(NEEDS)
def test_an_application_is_told_by_webhook_and_through_its_queue(
    fleet: FleetOfOneBox, tmp_path: Path, rabbitmq: RabbitMQ
) -> None:
    """C35: also by an orchestrator that is killed between the end and the telling, and started again."""
    application = Application(tmp_path, rabbitmq)
    application.start()
    told = ("--broker", rabbitmq.url, "--broker-prefix", f"t{uuid.uuid4().hex}", "--allow-webhook", "127.0.0.1")
    owner = fleet.orchestrate(*told)
    try:
        with Client(fleet.url) as client:
            early = client.submit("preview", subscribers=application.subscribers)
            early.cancel()
            owner.kill()
            owner.wait()
            fleet.orchestrate(*told)
            late = client.submit("preview", request_id="again", subscribers=application.subscribers[:1])
            late.cancel()
            client.submit("preview", request_id="again", subscribers=application.subscribers[1:])
        jobs = {job.id for job in (early, late)}
        owed = sorted(f"result:{job_id}:{route}" for job_id in jobs for route in application.subscribers)
        eventually(lambda: len(application.bookings()) >= 6, within_s=60)

        assert asyncio.run(application.told_by()) == owed
        assert {line["state"] for line in application.bookings()} == {"canceled"}
    finally:
        application.kill()


def test_a_webhook_to_this_box_is_refused_until_an_operator_allows_it(
    fleet: FleetOfOneBox, application: Application
) -> None:
    owner = fleet.orchestrate()
    with Client(fleet.url) as client, pytest.raises(Invalid, match=r"to allow it: --allow-webhook 127\.0\.0\.1"):
        client.submit("preview", subscribers=application.subscribers[:1])
    owner.terminate()
    owner.wait()

    fleet.orchestrate("--allow-webhook", "127.0.0.0/8")
    with Client(fleet.url) as client:
        client.submit("preview", subscribers=application.subscribers[:1]).cancel()

    eventually(lambda: len(application.bookings()) == 1, within_s=60)


@pytest.mark.parametrize(
    ("route", "words"),
    [
        ("rabbitmq:answers", "has no broker; give its orchestrator one with --broker"),
        ("command:/bin/true", "an orchestrator starts no programs"),
    ],
)
def test_a_route_that_the_orchestrator_could_not_send_to_is_refused(
    fleet: FleetOfOneBox, route: str, words: str
) -> None:
    fleet.orchestrate()
    with Client(fleet.url) as client, pytest.raises(Invalid, match=words):
        client.submit("preview", subscribers=[route])


def test_a_pattern_that_allows_nothing_is_said_at_once(fleet: FleetOfOneBox) -> None:
    process = fleet.start(
        "orchestrator", "--url", fleet.file, "--listen", "127.0.0.1:0", "--allow-webhook", "https://app.example"
    )

    assert process.wait(30) == 2
    assert "allows nothing: write a name such as app.internal" in fleet.log("orchestrator")


def test_c64_a_job_that_no_worker_ever_took_is_answered_at_its_deadline(
    fleet: FleetOfOneBox, application: Application
) -> None:
    """By the orchestrator, and whoever wants to be told is."""
    fleet.orchestrate("--allow-webhook", "127.0.0.1")
    with Client(fleet.url) as client:
        job = client.submit("preview", deadline_s=2, subscribers=application.subscribers[:1])
        answer = job.wait(timeout_s=30)
    eventually(application.bookings, within_s=30)

    assert (answer.state, answer.reason) == ("failed", "deadline")
    assert [(line["job"], line["state"]) for line in application.bookings()] == [(job.id, "failed")]


@pytest.mark.anyio
async def test_c61_twenty_who_wait_are_answered_through_a_kill_of_the_orchestrator(fleet: FleetOfOneBox) -> None:
    owner = fleet.orchestrate()
    async with AsyncClient(fleet.url) as client:
        jobs = [await client.submit("preview", params={"n": n}) for n in range(20)]
        waits = [asyncio.create_task(job.wait(timeout_s=60)) for job in jobs]
        await asyncio.sleep(0)
        owner.kill()
        await asyncio.to_thread(owner.wait)
        await asyncio.to_thread(fleet.orchestrate)
        for job in jobs:
            await job.cancel()
        answers = await asyncio.gather(*waits)

    assert [(answer.job_id, answer.state) for answer in answers] == [(job.id, "canceled") for job in jobs]
