"""Answers over a broker that dies, that has no such queue, or that carries what is not planrun's."""

# ruff: noqa: ASYNC110 -- tests look at other processes and poll with a deadline

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from deploy.local.rabbitmq import NEEDS, RabbitMQ
from planrun.clock import SystemClock
from planrun.core.messages import Message
from planrun.wiring import open_fleet_transport
from tests.client.stand_in import open_world
from tests.orchestrator.test_answers_once import Application, Story

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.needs(NEEDS)]


@pytest.fixture
def application(rabbitmq: RabbitMQ, tmp_path: Path) -> Iterator[Application]:
    application = Application(tmp_path, rabbitmq)
    yield application
    application.kill()


@pytest.fixture
async def story(application: Application, tmp_path: Path) -> AsyncIterator[Story]:
    async with open_world(f"sqlite:///{tmp_path}/ledger.db", broker_prefix="pr") as (client, hands):
        yield Story(client, hands, application, tmp_path)


async def declared(application: Application) -> None:
    assert application.broker is not None
    async with asyncio.timeout(30):
        while [application.queue] not in application.broker.queues():
            await asyncio.sleep(0.1)


async def test_an_answer_waits_for_its_queue_to_be_declared(story: Story) -> None:
    """C23, C35: the broker confirms what it throws away; that counts as not sent."""
    route = f"rabbitmq:{story.application.queue}"
    job = await story.client.submit("preview", subscribers=[route])
    story.jobs.add(job.id)
    await story.hands.finish(job.id)
    assert story.deliver().wait(30) == 0
    assert await story.undelivered() == 1

    story.application.start()
    await declared(story.application)
    await story.deliver_all()

    assert await story.application.told_by() == [f"result:{job.id}:{route}"]


async def test_a_broker_that_is_killed_with_answers_loses_none(story: Story, rabbitmq: RabbitMQ) -> None:
    """Confirmed, it lies there durably; not confirmed, it is owed, and goes out when the broker is back."""
    story.application.start()
    await declared(story.application)
    early = await story.finished()
    story.application.kill()
    assert story.deliver().wait(30) == 0
    rabbitmq.kill()
    try:
        late = await story.finished()
        assert story.deliver().wait(60) == 0
        assert await story.undelivered() > 0
    finally:
        rabbitmq.start()
    story.application.start()
    await story.deliver_all()

    assert await story.application.told_by() == story.owed_to_all(early, late)


async def test_what_is_no_answer_stops_no_answer(story: Story, rabbitmq: RabbitMQ) -> None:
    story.application.start()
    await declared(story.application)
    fleet = open_fleet_transport(SystemClock.open_system(), broker=rabbitmq.url, broker_prefix="pr", generation=0)
    garbage = Message(msg_id=uuid.uuid4().hex, route="", body="not an answer", tries=1)
    await fleet.deliver(story.application.queue, garbage)
    await fleet.close()
    job_id = await story.finished()
    await story.deliver_all()

    assert await story.application.told_by() == story.owed_to_all(job_id)
