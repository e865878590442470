"""Each subscriber acts once on the one answer: through copies, late callers, and deaths of senders and receivers."""

# ruff: noqa: ASYNC110 -- tests look at other processes and poll with a deadline

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from deploy.local.rabbitmq import NEEDS, RabbitMQ
from planrun.client import AsyncClient
from tests.client.stand_in import Hands, open_world
from tests.inbox.inbox_contract import held
from tests.lab import ROOT

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SECRET = "whsec_cGxhbnJ1biB0ZXN0cyBzaWduIHRoZWlyIG93bg=="
STEPS = ["outbox:taken", "outbox:sent", "outbox:confirmed"]
DUE_AGAIN_S = 400  # more than any wait between tries


@dataclass(eq=False)
class Application:
    """The example of a receiver, as its README starts it."""

    folder: Path
    broker: RabbitMQ | None = None
    address: str = ""
    process: subprocess.Popen[str] | None = None
    queue: str = field(default_factory=lambda: f"bookings-{uuid.uuid4().hex}")

    def start(self) -> None:
        port = self.address.rstrip("/").rpartition(":")[2] or "0"  # the same one after a restart
        listening = [] if self.broker is None else ["--amqp", self.broker.url, "--queue", self.queue]
        database = self.folder / "app.db"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "examples.receiver_app", "--database", database, "--port", port, *listening],
            cwd=ROOT,
            env=os.environ | {"PLANRUN_WEBHOOK_SECRET": SECRET},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().removeprefix("receiver app: ").strip()
        assert self.address, "the app did not start"

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()

    def bookings(self) -> list[dict[str, Any]]:
        answer: list[dict[str, Any]] = httpx2.get(f"{self.address}bookings").json()
        return answer

    async def told_by(self) -> list[str]:
        """The messages that it acted upon, once all that lay in its queue are acknowledged."""
        async with asyncio.timeout(30):
            while self.broker is not None and [self.queue, "0"] not in self.broker.queues("messages"):
                await asyncio.sleep(0.1)
        return sorted(line["told_by"] for line in self.bookings())

    @property
    def subscribers(self) -> list[str]:
        """Three routes: webhooks, and with a broker one queue among them."""
        webhooks = [f"webhook:{self.address}answers?subscriber={name}" for name in "abc"]
        return sorted(webhooks if self.broker is None else [*webhooks[:2], f"rabbitmq:{self.queue}"])


@dataclass(eq=False)
class Story:
    client: AsyncClient
    hands: Hands
    application: Application
    folder: Path
    deliveries: int = 0
    jobs: set[str] = field(default_factory=set)

    @property
    def subscribers(self) -> list[str]:
        return self.application.subscribers

    async def callers(self, numbers: range) -> None:
        """Each asks for the same under one key; those who want to be told name one of three routes."""
        routes = [[], *([route] for route in self.subscribers)]
        handles = await asyncio.gather(
            *(
                self.client.submit("preview", key="k", request_id=f"r{n // 2}", subscribers=routes[n % 4])
                for n in numbers
            )
        )
        self.jobs |= {handle.id for handle in handles}

    async def finished(self) -> str:
        """A job that ended, of which three are to be told."""
        job = await self.client.submit("preview", subscribers=self.subscribers)
        self.jobs.add(job.id)
        await self.hands.finish(job.id)
        return job.id

    def deliver(self) -> subprocess.Popen[bytes]:
        """A process that sends what is owed, once."""
        self.deliveries += 1
        told = [self.client._url, str(self.deliveries * DUE_AGAIN_S)]
        broker = [] if self.application.broker is None else [self.application.broker.url]
        return subprocess.Popen(
            [sys.executable, "-m", "tests.orchestrator.outbox_main", *told, *broker],
            cwd=ROOT,
            env=os.environ | {"PLANRUN_WEBHOOK_SECRET": SECRET, "PLANRUN_TRIP_DIR": str(self.folder)},
        )

    async def deliver_all(self) -> None:
        for _ in range(8):
            if not await self.undelivered():
                return
            assert self.deliver().wait(30) == 0
        raise AssertionError("something is still owed")

    async def undelivered(self) -> int:
        rows = [await self.hands.ledger.job(None, job_id) for job_id in self.jobs]
        return sum(row.undelivered for row in rows if row is not None)

    def owed_to_all(self, *job_ids: str) -> list[str]:
        return sorted(f"result:{job_id}:{route}" for job_id in job_ids for route in self.subscribers)


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.needs(NEEDS))], ids=["webhooks", "and-a-queue"])
def application(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Application]:
    application = Application(tmp_path, request.getfixturevalue("rabbitmq") if request.param else None)
    application.start()
    yield application
    application.kill()


@pytest.fixture
async def story(application: Application, tmp_path: Path) -> AsyncIterator[Story]:
    prefix = None if application.broker is None else "pr"
    async with open_world(f"sqlite:///{tmp_path}/ledger.db", broker_prefix=prefix) as (client, hands):
        yield Story(client, hands, application, tmp_path)


async def test_50_callers_and_3_subscribers_get_one_message_each_wherever_the_sender_dies(story: Story) -> None:
    """C35, C59, C63: before the end, after it, and the same request twice; killed at every step of a delivery."""
    await story.callers(range(25))
    [job_id] = story.jobs
    await story.hands.finish(job_id, value={"frames": 24})
    for step in STEPS:
        process = held(step, story.folder, story.deliver)
        process.kill()
        process.wait()
        await story.callers(range(50))
    await story.deliver_all()
    await story.callers(range(50))
    await story.deliver_all()

    assert await story.application.told_by() == story.owed_to_all(job_id)
    assert story.jobs == {job_id}
    booked = story.application.bookings()
    assert {(line["job"], line["state"], line["value"]) for line in booked} == {(job_id, "finished", "{'frames': 24}")}


async def test_a_receiver_that_acted_and_died_acts_once(story: Story) -> None:
    """C63: the sender dies with it, so nobody knows that it had come; and while it is down, nothing gets lost."""
    job_id = await story.finished()
    process = held("outbox:sent", story.folder, story.deliver)
    story.application.kill()
    process.kill()
    process.wait()
    assert story.deliver().wait(30) == 0
    assert await story.undelivered() >= 2  # who listens to a queue need not be there when it is told
    story.application.start()
    await story.deliver_all()

    assert await story.application.told_by() == story.owed_to_all(job_id)


async def test_what_is_not_planruns_is_not_booked(application: Application) -> None:
    async with httpx2.AsyncClient() as http:
        forged = await http.post(f"{application.address}answers", content=json.dumps({"msg_id": "m"}))
        large = await http.post(f"{application.address}answers", content=b"x" * (4 * 2**20 + 1))

    assert (forged.status_code, large.status_code) == (400, 413)
    assert application.bookings() == []
