"""What is owed goes out until it is confirmed: same id, same bytes, however often (C63)."""

# ruff: noqa: ASYNC110 -- tests look at files and poll with a deadline

from __future__ import annotations

import asyncio
import json
import logging
import re
import shlex
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from planrun.clock import Clock, SystemClock
from planrun.core.errors import LedgerUnavailable
from planrun.core.messages import Message
from planrun.orchestrator import outbox as outbox_module
from planrun.orchestrator.outbox import Outbox
from planrun.orchestrator.publisher import Publisher
from planrun.orchestrator.webhook import rest_s_of
from planrun.storage.filesystem import FilesystemStore
from tests.contract.manual_clock import ManualClock
from tests.orchestrator.fake_ledger import FakeLedger

pytestmark = pytest.mark.anyio

BODY = json.dumps({"state": "finished", "name": "Grüße 🎬"}, ensure_ascii=False)
SECRET = "whsec_cGxhbnJ1biB0ZXN0cyBzaWduIHRoZWlyIG93bg=="
OTHER_SECRET = "whsec_c29tZWJvZHkgZWxzZSBzaWducyB3aXRoIHRoaXM="


class Receiver:
    """An HTTP server whose manners are set by the test. Keeps what it was sent."""

    def __init__(self) -> None:
        self.heads: list[dict[str, str]] = []
        self.bodies: list[bytes] = []
        self.manners: list[str] = []  # for the next requests; then it answers 200
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await self._head(reader):
                self.bodies.append(await reader.readexactly(int(head["content-length"])))
                self.heads.append(head)
                manner = self.manners.pop(0) if self.manners else "200 OK"
                if manner == "drop":
                    return
                if manner == "hang":
                    await asyncio.sleep(60)
                location = f"location: http://127.0.0.1:{self.port}/elsewhere\r\n" if manner[0] == "3" else ""
                writer.write(f"HTTP/1.1 {manner}\r\n{location}content-length: 2\r\n\r\nok".encode())
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _head(self, reader: asyncio.StreamReader) -> dict[str, str]:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        fields = [line.split(": ", 1) for line in lines[1:] if line]
        return {name.lower(): value for name, value in fields} | {"line": lines[0]}


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    receiver.port = server.sockets[0].getsockname()[1]
    yield receiver
    server.close()


def an_outbox(ledger: FakeLedger, *, clock: Clock | None = None, **given: Any) -> Outbox:
    """These tests publish nothing."""
    publisher = Publisher(ledger.port, FilesystemStore(Path("nowhere")), Path("nowhere"))
    return Outbox(ledger.port, clock or SystemClock.open_system(), publisher=publisher, **given)


@pytest.fixture
async def outbox(ledger: FakeLedger) -> AsyncIterator[Outbox]:
    outbox = an_outbox(ledger, environment={"PATH": "/usr/bin:/bin"})
    yield outbox
    await outbox.close()


def webhook_to(receiver: Receiver, n: int = 1, path: str = "/answers") -> Message:
    route = f"webhook:http://127.0.0.1:{receiver.port}{path}"
    return Message(msg_id=f"result:job-{n}:{route}", route=route, body=BODY, tries=0)


def command(line: str) -> Message:
    return Message(msg_id=f"result:job-1:command:{line}", route=f"command:{line}", body=BODY, tries=0)


async def test_a_2xx_answer_confirms(ledger: FakeLedger, outbox: Outbox, receiver: Receiver) -> None:
    message = webhook_to(receiver)
    ledger.owe(message)

    await outbox.tick(ledger.boot_ms)

    assert ledger.owed == {}
    assert receiver.bodies == [BODY.encode()]
    assert receiver.heads[0]["line"] == "POST /answers HTTP/1.1"
    assert receiver.heads[0]["content-type"] == "application/json"
    assert re.fullmatch(r"msg_[0-9a-f]{32}", receiver.heads[0]["webhook-id"])


async def test_a_receiver_that_drops_ten_times_gets_eleven_equal_copies(
    ledger: FakeLedger, outbox: Outbox, receiver: Receiver
) -> None:
    """C63: it takes the message and closes the connection before it answers."""
    receiver.manners = ["drop"] * 10
    message = webhook_to(receiver)
    ledger.owe(message)

    waits = []
    while ledger.owed:
        started_ms = ledger.boot_ms
        await outbox.tick(started_ms)
        if ledger.owed:
            ledger.boot_ms = ledger.owed[message.msg_id][1]
            waits.append((ledger.boot_ms - started_ms) // 1000)

    assert receiver.bodies == [BODY.encode()] * 11
    assert len({head["webhook-id"] for head in receiver.heads}) == 1
    assert waits == [11, 11, 11, 16, 32, 64, 128, 256, 300, 300]


@pytest.mark.parametrize("manner", ["500 Oops", "404 Not Found", "301 Moved", "307 Moved", "304 Not Modified", "drop"])
async def test_any_other_answer_leaves_the_message_owed(
    ledger: FakeLedger, outbox: Outbox, receiver: Receiver, manner: str
) -> None:
    receiver.manners = [manner]
    ledger.owe(webhook_to(receiver))

    await outbox.tick(ledger.boot_ms)

    assert len(ledger.owed) == 1
    assert [head["line"] for head in receiver.heads] == ["POST /answers HTTP/1.1"]  # a redirect is not followed


@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable"])
async def test_a_receiver_that_asks_for_a_rest_gets_it_and_others_are_not_kept_waiting(
    ledger: FakeLedger, receiver: Receiver, status: str
) -> None:
    clock = ManualClock()
    outbox = an_outbox(ledger, clock=clock, environment={})
    receiver.manners = [f"{status}\r\nretry-after: 120"]
    ledger.owe(webhook_to(receiver))

    async def tick() -> list[str]:
        before = len(receiver.heads)
        ledger.boot_ms = max([ledger.boot_ms, *(due_ms for _, due_ms in ledger.owed.values())])
        await outbox.tick(ledger.boot_ms)
        return [head["line"].split()[1] for head in receiver.heads[before:]]

    assert await tick() == ["/answers"]
    clock.advance(119)
    assert await tick() == []
    ledger.owe(webhook_to(receiver, n=2, path="/others"))
    assert await tick() == ["/others"]
    clock.advance(1)
    assert await tick() == ["/answers"]
    assert ledger.owed == {}
    await outbox.close()


@pytest.mark.parametrize(
    ("said", "rest_s"),
    [
        ("120", 120),
        ("0", 0),
        ("999999999999", 3600),
        ("Thu, 01 Jan 1970 00:02:00 GMT", 60),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Thu, 01 Jan 2070 00:00:00 GMT", 3600),
        ("-5", 0),
        ("soon", 0),
        ("\u0661", 0),
        ("", 0),
    ],
)
def test_how_long_a_receiver_may_rest_is_bounded(said: str, rest_s: float) -> None:
    assert rest_s_of(said, wall_ms=60_000) == rest_s


async def test_a_receiver_that_is_gone_for_good_is_parked_like_a_queue_that_is_not_there(
    ledger: FakeLedger, outbox: Outbox, receiver: Receiver
) -> None:
    """410 is what Standard Webhooks has for it; other refusals may be a bad moment."""
    ledger.kept_long_enough = True
    receiver.manners = ["404 Not Found"] * 12 + ["410 Gone"]
    ledger.owe(webhook_to(receiver))
    for _ in range(12):
        await outbox.tick(ledger.boot_ms)
        [(_, ledger.boot_ms)] = ledger.owed.values()
    await outbox.tick(ledger.boot_ms)

    assert ledger.owed == {}
    assert [asked.partition(":")[0] for asked in ledger.asked if asked.startswith(("park", "confirm"))] == [
        "park result"
    ]


async def test_a_slow_receiver_delays_nobody_else(
    ledger: FakeLedger, outbox: Outbox, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_module, "DELIVERY_TIMEOUT_S", 0.3)
    receiver.manners = ["hang"]
    messages = [webhook_to(receiver, n) for n in range(5)]
    for message in messages:
        ledger.owe(message)

    await outbox.tick(ledger.boot_ms)

    assert len(receiver.bodies) == 5
    assert len(ledger.owed) == 1


async def test_a_receiver_that_is_down_is_tried_again_later(ledger: FakeLedger, outbox: Outbox) -> None:
    ledger.owe(Message(msg_id="m", route="webhook:http://127.0.0.1:9/", body=BODY, tries=0))

    await outbox.tick(ledger.boot_ms)
    next_ms = await outbox.tick(ledger.boot_ms)

    assert ledger.owed["m"][0].tries == 1
    assert next_ms == ledger.boot_ms + 5_000
    ledger.boot_ms += 9_000
    assert await outbox.tick(ledger.boot_ms) == ledger.owed["m"][1]


@pytest.mark.parametrize("secrets", [[SECRET], [SECRET, OTHER_SECRET], [OTHER_SECRET, SECRET]])
async def test_a_signed_webhook_verifies_at_the_receiver(
    ledger: FakeLedger, receiver: Receiver, secrets: list[str]
) -> None:
    """While one secret is exchanged for another it verifies with either."""
    outbox = an_outbox(ledger, environment={}, webhook_secret=" ".join(secrets))
    ledger.owe(webhook_to(receiver))

    await outbox.tick(ledger.boot_ms)
    await outbox.close()

    for secret in secrets:
        assert Webhook(secret).verify(receiver.bodies[0], receiver.heads[0]) == json.loads(BODY)


async def test_each_subscriber_has_an_id_of_its_own_without_full_stops(
    ledger: FakeLedger, outbox: Outbox, receiver: Receiver
) -> None:
    """What is signed is id.time.body: a sender who names the address must not choose where the parts end."""
    for path in ("/a.1764000000.{}", "/b"):
        ledger.owe(webhook_to(receiver, path=path))

    await outbox.tick(ledger.boot_ms)

    ids = [head["webhook-id"] for head in receiver.heads]
    assert len(set(ids)) == 2
    assert not any("." in each for each in ids)


async def test_a_confirmation_that_got_lost_leads_to_an_equal_copy(
    ledger: FakeLedger, outbox: Outbox, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D7, D8: delivered, but the ledger did not hear of it."""
    ledger.owe(webhook_to(receiver))
    confirm = ledger.confirm

    async def lost(msg_id: str) -> None:
        raise LedgerUnavailable("the disk of the ledger is full")

    monkeypatch.setattr(ledger, "confirm", lost)
    with pytest.raises(LedgerUnavailable):
        await outbox.tick(ledger.boot_ms)
    monkeypatch.setattr(ledger, "confirm", confirm)
    ledger.boot_ms += 11_000
    await outbox.tick(ledger.boot_ms)

    assert receiver.bodies == [BODY.encode()] * 2
    assert ledger.owed == {}


async def test_a_command_gets_the_answer_on_its_input_and_the_id_in_its_environment(
    ledger: FakeLedger, outbox: Outbox, tmp_path: Path
) -> None:
    script = f'cat > {tmp_path}/body; echo "$PLANRUN_MSG_ID" > {tmp_path}/id'
    message = command(f"sh -c {shlex.quote(script)}")
    ledger.owe(message)

    await outbox.tick(ledger.boot_ms)

    assert ledger.owed == {}
    assert (tmp_path / "body").read_text() == BODY
    assert (tmp_path / "id").read_text() == f"{message.msg_id}\n"


async def test_no_shell_reads_a_command(ledger: FakeLedger, outbox: Outbox, tmp_path: Path) -> None:
    ledger.owe(command(f"touch {tmp_path}/$HOME;x"))

    await outbox.tick(ledger.boot_ms)

    assert [path.name for path in tmp_path.iterdir()] == ["$HOME;x"]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("sh -c 'exit 3'", "sh exited with 3"),
        ("sh -c 'kill -9 $$'", "sh was killed by SIGKILL"),
        ("/no/such/program", "cannot be started: No such file"),
    ],
)
async def test_a_command_that_fails_leaves_the_message_owed_and_says_why(
    ledger: FakeLedger, outbox: Outbox, caplog: pytest.LogCaptureFixture, line: str, told: str
) -> None:
    ledger.owe(command(line))

    await outbox.tick(ledger.boot_ms)

    assert len(ledger.owed) == 1
    assert told in caplog.text


async def test_a_command_need_not_read_its_input(ledger: FakeLedger, outbox: Outbox) -> None:
    large = Message(msg_id="m", route="command:true", body="x" * 1_000_000, tries=0)
    ledger.owe(large)

    await outbox.tick(ledger.boot_ms)

    assert ledger.owed == {}


async def test_a_command_that_hangs_is_killed_with_its_children(
    ledger: FakeLedger, outbox: Outbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_module, "DELIVERY_TIMEOUT_S", 0.5)
    pids = tmp_path / "pids"
    ledger.owe(command(f"sh -c 'sleep 60 & echo $! > {pids}; wait'"))

    await outbox.tick(ledger.boot_ms)

    assert len(ledger.owed) == 1
    await wait_until_gone(int(pids.read_text()))


async def test_a_canceled_delivery_leaves_no_process(ledger: FakeLedger, outbox: Outbox, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script = f"import os, time; open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    ledger.owe(command(f"{sys.executable} -c {shlex.quote(script)}"))
    ticking = asyncio.create_task(outbox.tick(ledger.boot_ms))
    async with asyncio.timeout(10):
        while not pid_file.exists() or not pid_file.read_text():
            await asyncio.sleep(0.01)
    ticking.cancel()
    await asyncio.gather(ticking, return_exceptions=True)
    await outbox.close()

    await wait_until_gone(int(pid_file.read_text()))


async def test_a_route_that_nobody_understands_stays_owed(ledger: FakeLedger, outbox: Outbox) -> None:
    ledger.owe(Message(msg_id="m", route="pigeon:home", body=BODY, tries=0))
    ledger.owe(command("true"))

    await outbox.tick(ledger.boot_ms)

    assert list(ledger.owed) == ["m"]


async def test_many_failures_become_an_alarm(
    ledger: FakeLedger, outbox: Outbox, caplog: pytest.LogCaptureFixture
) -> None:
    ledger.owe(Message(msg_id="m", route="command:false", body=BODY, tries=8))

    for _ in range(2):
        await outbox.tick(ledger.boot_ms)
        ledger.boot_ms = ledger.owed["m"][1]

    assert [record.levelno for record in caplog.records] == [logging.WARNING, logging.ERROR]


async def wait_until_gone(pid: int) -> None:
    """Killed and reaped, or killed and waiting to be reaped by the system's init."""
    stat = Path(f"/proc/{pid}/stat")
    async with asyncio.timeout(5):
        while stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] != "Z":
            await asyncio.sleep(0.01)
