"""Each subscriber acts once on the one answer: through copies, late callers, and deaths of senders and receivers."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from planrun.client import AsyncClient
from tests.client.stand_in import Hands, open_world
from tests.inbox.inbox_contract import held
from tests.lab import ROOT

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SECRET = "whsec_cGxhbnJ1biB0ZXN0cyBzaWduIHRoZWlyIG93bg=="
STEPS = ["outbox:taken", "outbox:sent", "outbox:confirmed"]
DUE_AGAIN_S = 12


@dataclass(eq=False)
class Application:
    """The example of a receiver, as its README starts it."""

    folder: Path
    address: str = ""
    process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        port = self.address.rstrip("/").rpartition(":")[2] or "0"  # the same one after a restart
        self.process = subprocess.Popen(
            [sys.executable, "-m", "examples.receiver_app", "--database", self.folder / "app.db", "--port", port],
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

    def route(self, subscriber: str) -> str:
        return f"webhook:{self.address}answers?subscriber={subscriber}"


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
        return [self.application.route(name) for name in "abc"]

    async def callers(self, numbers: range) -> None:
        """Each asks for the same under one key; those who want to be told name one of three routes."""
        handles = await asyncio.gather(
            *(
                self.client.submit(
                    "preview",
                    key="k",
                    request_id=f"r{n // 2}",
                    subscribers=[[], *([r] for r in self.subscribers)][n % 4],
                )
                for n in numbers
            )
        )
        self.jobs |= {handle.id for handle in handles}

    def deliver(self) -> subprocess.Popen[str]:
        """A process that sends what is owed, once."""
        self.deliveries += 1
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.orchestrator.outbox_main"),
                *(self.client._url, str(self.deliveries * DUE_AGAIN_S)),
            ],
            cwd=ROOT,
            env=os.environ | {"PLANRUN_WEBHOOK_SECRET": SECRET, "PLANRUN_TRIP_DIR": str(self.folder)},
            text=True,
        )

    async def deliver_all(self) -> None:
        for _ in range(5):
            if not (await self.hands.ledger.due()).messages and not await self.undelivered():
                return
            assert self.deliver().wait(30) == 0
        raise AssertionError("something is still owed")

    async def undelivered(self) -> int:
        rows = [await self.hands.ledger.job(None, job_id) for job_id in self.jobs]
        return sum(row.undelivered for row in rows if row is not None)


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Application]:
    application = Application(tmp_path)
    application.start()
    yield application
    application.kill()


@pytest.fixture
async def story(application: Application, tmp_path: Path) -> AsyncIterator[Story]:
    async with open_world(f"sqlite:///{tmp_path}/ledger.db") as (client, hands):
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

    booked = story.application.bookings()
    assert story.jobs == {job_id}
    assert sorted(line["told_by"] for line in booked) == [f"result:{job_id}:{route}" for route in story.subscribers]
    assert {(line["job"], line["state"], line["value"]) for line in booked} == {(job_id, "finished", "{'frames': 24}")}


async def test_a_receiver_that_acted_and_died_acts_once(story: Story) -> None:
    """C63: the sender dies with it, so nobody knows that it had come; and while it is down, nothing gets lost."""
    job = await story.client.submit("preview", subscribers=story.subscribers)
    story.jobs.add(job.id)
    await story.hands.finish(job.id)
    process = held("outbox:sent", story.folder, story.deliver)
    story.application.kill()
    process.kill()
    process.wait()
    assert story.deliver().wait(30) == 0
    assert await story.undelivered() == 3
    story.application.start()
    await story.deliver_all()

    told_by = [line["told_by"] for line in story.application.bookings()]
    assert sorted(told_by) == [f"result:{job.id}:{route}" for route in story.subscribers]


async def test_what_is_not_planruns_is_not_booked(application: Application) -> None:
    async with httpx2.AsyncClient() as http:
        forged = await http.post(f"{application.address}answers", content=json.dumps({"msg_id": "m"}))
        large = await http.post(f"{application.address}answers", content=b"x" * (4 * 2**20 + 1))

    assert (forged.status_code, large.status_code) == (400, 413)
    assert application.bookings() == []
