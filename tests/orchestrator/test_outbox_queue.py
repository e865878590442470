"""Answers into an application's own queue: confirmed or owed, and parked where nobody is there any more."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from planrun.clock import SystemClock
from planrun.core.errors import TransportUnavailable, Unroutable
from planrun.core.messages import Message
from planrun.orchestrator import outbox as outbox_module
from planrun.orchestrator.outbox import ALARM_AT_TRIES, Outbox
from planrun.orchestrator.publisher import Publisher
from planrun.storage.filesystem import FilesystemStore
from planrun.transport.contract import FleetTransport
from tests.orchestrator.fake_ledger import FakeLedger

pytestmark = pytest.mark.anyio


class Broker:
    """The end of the broker that answers go into. What it does is set by the test; then it takes them."""

    def __init__(self) -> None:
        self.queues: dict[str, list[Message]] = {"answers": []}
        self.manners: list[str] = []

    @property
    def port(self) -> FleetTransport:
        return cast("FleetTransport", self)

    async def deliver(self, address: str, message: Message) -> None:
        manner = self.manners.pop(0) if self.manners else ""
        if manner == "hang":
            await asyncio.sleep(60)
        if manner == "down":
            raise TransportUnavailable("the connection is lost")
        if address not in self.queues:
            raise Unroutable(f"there is no queue {address}")
        self.queues[address].append(message)
        if manner == "confirm lost":
            raise TransportUnavailable("not confirmed")


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
async def outbox(ledger: FakeLedger, broker: Broker) -> AsyncIterator[Outbox]:
    outbox = an_outbox(ledger, broker.port)
    yield outbox
    await outbox.close()


def an_outbox(ledger: FakeLedger, broker: FleetTransport | None) -> Outbox:
    publisher = Publisher(ledger.port, FilesystemStore(Path("nowhere")), Path("nowhere"))
    return Outbox(ledger.port, SystemClock.open_system(), publisher=publisher, environment={}, broker=broker)


def to_queue(name: str = "answers", *, tries: int = 0) -> Message:
    return Message(msg_id=f"result:j:rabbitmq:{name}", route=f"rabbitmq:{name}", body='{"a":"ü"}', tries=tries)


async def until_nothing_is_due(ledger: FakeLedger, outbox: Outbox, *, tries_max: int) -> None:
    for _ in range(tries_max):
        ledger.boot_ms = max([ledger.boot_ms, *(due_ms for _, due_ms in ledger.owed.values())])
        await outbox.tick(ledger.boot_ms)


async def test_what_is_confirmed_is_owed_no_more(ledger: FakeLedger, outbox: Outbox, broker: Broker) -> None:
    ledger.owe(to_queue())

    await outbox.tick(ledger.boot_ms)

    assert ledger.owed == {}
    [sent] = broker.queues["answers"]
    assert (sent.msg_id, sent.body) == ("result:j:rabbitmq:answers", '{"a":"ü"}')


@pytest.mark.parametrize("manner", ["down", "hang", "confirm lost"])
async def test_what_is_not_confirmed_goes_out_again_the_same(
    ledger: FakeLedger, outbox: Outbox, broker: Broker, monkeypatch: pytest.MonkeyPatch, manner: str
) -> None:
    monkeypatch.setattr(outbox_module, "DELIVERY_TIMEOUT_S", 0.2)
    broker.manners = [manner]
    ledger.owe(to_queue())

    await outbox.tick(ledger.boot_ms)
    assert len(ledger.owed) == 1
    await until_nothing_is_due(ledger, outbox, tries_max=1)

    assert ledger.owed == {}
    assert len({(sent.msg_id, sent.body) for sent in broker.queues["answers"]}) == 1


async def test_an_answer_waits_for_its_queue(ledger: FakeLedger, outbox: Outbox, broker: Broker) -> None:
    """Declared late, it still comes."""
    ledger.owe(to_queue("late"))
    await until_nothing_is_due(ledger, outbox, tries_max=15)
    assert len(ledger.owed) == 1

    broker.queues["late"] = []
    await until_nothing_is_due(ledger, outbox, tries_max=1)

    assert ledger.owed == {}
    assert len(broker.queues["late"]) == 1


async def test_where_nobody_is_there_it_is_an_alarm_and_then_parked(
    ledger: FakeLedger, outbox: Outbox, caplog: pytest.LogCaptureFixture
) -> None:
    """Only after as many tries as make an alarm does anybody ask if it may be parked."""
    ledger.owe(to_queue("gone"))
    await until_nothing_is_due(ledger, outbox, tries_max=ALARM_AT_TRIES)
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 9 + [logging.ERROR]
    assert [asked for asked in ledger.asked if asked.startswith("park")] == [
        "park result:j:rabbitmq:gone: queue gone: there is no such queue; declare it, durable"
    ]

    ledger.kept_long_enough = True
    await until_nothing_is_due(ledger, outbox, tries_max=1)

    assert ledger.owed == {}


async def test_a_broker_that_is_down_parks_nothing(ledger: FakeLedger, outbox: Outbox, broker: Broker) -> None:
    broker.manners = ["down"] * 15
    ledger.kept_long_enough = True
    ledger.owe(to_queue())

    await until_nothing_is_due(ledger, outbox, tries_max=15)

    assert len(ledger.owed) == 1
    assert not any(asked.startswith("park") for asked in ledger.asked)


async def test_without_a_broker_it_stays_owed_and_says_what_is_missing(
    ledger: FakeLedger, caplog: pytest.LogCaptureFixture
) -> None:
    outbox = an_outbox(ledger, None)
    ledger.owe(to_queue())

    await outbox.tick(ledger.boot_ms)

    assert len(ledger.owed) == 1
    assert "no broker any more; give it one with --broker" in caplog.text


async def test_a_queue_that_answers_slowly_delays_nobody_else(
    ledger: FakeLedger, outbox: Outbox, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_module, "DELIVERY_TIMEOUT_S", 0.2)
    broker.manners = ["hang"]
    broker.queues["other"] = []
    ledger.owe(to_queue())
    ledger.owe(to_queue("other"))

    await outbox.tick(ledger.boot_ms)

    assert len(broker.queues["other"]) == 1
