"""Who hangs keeps nobody else waiting, and nothing that goes on by itself is forgotten."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from planrun.clock import SystemClock
from planrun.core.errors import LedgerUnavailable
from planrun.core.messages import Message
from planrun.orchestrator import outbox as outbox_module
from planrun.orchestrator.outbox import Outbox
from planrun.orchestrator.publisher import Publisher
from planrun.storage.filesystem import FilesystemStore
from tests.orchestrator.fake_ledger import FakeLedger

pytestmark = pytest.mark.anyio


class Hosts:
    """Implements `Webhooks`: those that hang say nothing until they may go on, the others take everything.

    Attributes:
        asked: How often each host was asked.
    """

    def __init__(self, *hanging: str) -> None:
        self.hanging = set(hanging)
        self.asked: Counter[str] = Counter()
        self.go_on = asyncio.Event()

    async def send(self, url: str, message: Message, *, wall_ms: int) -> None:
        host = url.split("/")[2]
        self.asked[host] += 1
        if host in self.hanging:
            await self.go_on.wait()

    async def close(self) -> None:
        pass


def an_outbox(ledger: FakeLedger, hosts: Hosts) -> Outbox:
    """These tests publish nothing."""
    publisher = Publisher(ledger.port, FilesystemStore(Path("nowhere")), Path("nowhere"))
    return Outbox(ledger.port, SystemClock.open_system(), publisher=publisher, environment={}, webhooks=hosts)


def webhook_at(host: str, n: int = 1) -> Message:
    return Message(msg_id=f"result:{n}:{host}", route=f"webhook:http://{host}/answers/{n}", body="{}", tries=0)


async def test_a_receiver_that_hangs_keeps_no_other_waiting_and_is_tried_with_one_answer_at_a_time(
    ledger: FakeLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_module, "DELIVERY_TIMEOUT_S", 1.0)
    monkeypatch.setattr(outbox_module, "PATIENCE_S", 0.05)
    hosts = Hosts("hole")
    outbox = an_outbox(ledger, hosts)
    for n in range(40):
        ledger.owe(webhook_at("hole", n))

    async def deliver_all() -> None:
        for _ in range(10):
            await outbox.tick(ledger.boot_ms)
        await outbox.wait_until_idle()

    await outbox.tick(ledger.boot_ms)
    ledger.owe(webhook_at("well", 1))
    await outbox.tick(ledger.boot_ms)
    assert hosts.asked == {"hole": 40, "well": 1}
    assert len(ledger.owed) == 40
    await outbox.wait_until_idle()

    ledger.boot_ms += 11_000
    ledger.owe(webhook_at("well", 2))
    await deliver_all()
    assert hosts.asked == {"hole": 41, "well": 2}

    hosts.go_on.set()
    for _ in range(2):
        ledger.boot_ms += 300_000
        await deliver_all()
    assert ledger.owed == {}
    await outbox.close()


async def test_what_went_wrong_behind_the_back_of_a_look_is_said_at_the_next_one(
    ledger: FakeLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_module, "PATIENCE_S", 0.01)
    hosts = Hosts("slow")
    outbox = an_outbox(ledger, hosts)
    ledger.owe(webhook_at("slow"))
    await outbox.tick(ledger.boot_ms)
    ledger.out_of_order = True
    hosts.go_on.set()
    await outbox.wait_until_idle()
    ledger.out_of_order = False

    with pytest.raises(LedgerUnavailable):
        await outbox.tick(ledger.boot_ms)
    assert len(ledger.owed) == 1


async def test_what_is_under_way_is_not_begun_again(ledger: FakeLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger that is asked for long whether it has heard of the first one."""
    monkeypatch.setattr(outbox_module, "PATIENCE_S", 0.01)
    hosts = Hosts()
    outbox = an_outbox(ledger, hosts)
    go_on = asyncio.Event()
    confirm = ledger.confirm

    async def slow(msg_id: str) -> None:
        await go_on.wait()
        await confirm(msg_id)

    monkeypatch.setattr(ledger, "confirm", slow)
    ledger.owe(webhook_at("well"))
    await outbox.tick(ledger.boot_ms)
    ledger.boot_ms += 11_000
    await outbox.tick(ledger.boot_ms)
    go_on.set()
    await outbox.wait_until_idle()

    assert (hosts.asked, ledger.owed) == ({"well": 1}, {})


async def test_not_more_is_under_way_than_may_be(ledger: FakeLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "PATIENCE_S", 0.01)
    monkeypatch.setattr(outbox_module, "UNDER_WAY_MAX", 3)
    monkeypatch.setattr(outbox_module, "DELIVERY_TIMEOUT_S", 0.3)
    hosts = Hosts("hole")
    outbox = an_outbox(ledger, hosts)
    for n in range(5):
        ledger.owe(webhook_at("hole", n))
    ledger.owe(webhook_at("well", 1))

    await outbox.tick(ledger.boot_ms)
    assert hosts.asked == {"hole": 3}
    for _ in range(8):  # until one has come to its end
        await outbox.tick(ledger.boot_ms)

    assert hosts.asked["well"] == 1
    await outbox.close()
