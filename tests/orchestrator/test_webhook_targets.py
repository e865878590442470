"""A webhook goes to public addresses and to those that are allowed; judged is what a name resolved to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from planrun.core.addresses import Allowed, allowed_from
from planrun.core.messages import Message
from planrun.orchestrator.webhook import NotAccepted, WebhookSender

pytestmark = pytest.mark.anyio

MESSAGE = Message(msg_id="result:j:webhook:x", route="webhook:x", body="{}", tries=1)


class Box:
    """Something on this machine that answers 200 to whoever gets through."""

    port = 0
    asked = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()


@pytest.fixture
async def box() -> AsyncIterator[Box]:
    box = Box()
    server = await asyncio.start_server(box.serve, "127.0.0.1", 0)
    box.port = server.sockets[0].getsockname()[1]
    yield box
    server.close()


async def send(url: str, allowed: Allowed | None) -> None:
    sender = WebhookSender(allowed=allowed)
    try:
        await sender.send(url, MESSAGE, wall_ms=0)
    finally:
        await sender.close()


@pytest.mark.parametrize("allowed", [None, allowed_from(["127.0.0.1"])])
async def test_who_waits_for_a_receiver_that_hangs_holds_no_connection_of_others(
    box: Box, allowed: Allowed | None
) -> None:
    hanging = socket.create_server(("127.0.0.1", 0), backlog=200)  # takes connections, and never looks at them
    port = hanging.getsockname()[1]
    sender = WebhookSender(allowed=allowed)
    waiting = [asyncio.create_task(sender.send(f"http://127.0.0.1:{port}/{n}", MESSAGE, wall_ms=0)) for n in range(120)]
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await sender.send(f"http://127.0.0.1:{box.port}/", MESSAGE, wall_ms=0)

    assert box.asked == 1
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await sender.close()
    hanging.close()


def resolve_to(monkeypatch: pytest.MonkeyPatch, *rounds: str) -> list[str]:
    """Whoever asks for a name gets the next of these; returns the names asked for."""
    asked: list[str] = []
    left = list(rounds)

    async def getaddrinfo(self: object, host: str, port: int, **_: Any) -> list[Any]:
        asked.append(host)
        address = left.pop(0)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [(family, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)
    return asked


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433", "0x7f000001", "127.1", "0.0.0.0", "017700000001"],
)
async def test_this_machine_is_not_asked_however_it_is_written(box: Box, host: str) -> None:
    with pytest.raises(NotAccepted, match=r"not public; to allow it: --allow-webhook|Invalid"):
        await send(f"http://{host}:{box.port}/", Allowed())

    assert box.asked == 0


@pytest.mark.parametrize("host", ["169.254.169.254", "[::ffff:169.254.169.254]", "[fd00:ec2::254]", "2852039166"])
async def test_a_metadata_service_is_not_asked(host: str) -> None:
    async with asyncio.timeout(5):
        with pytest.raises(NotAccepted, match="not public"):
            await send(f"http://{host}/latest/meta-data/", Allowed())


async def test_a_name_is_judged_by_what_it_resolves_to(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    resolve_to(monkeypatch, "127.0.0.1")

    with pytest.raises(NotAccepted, match=r"app\.example is 127\.0\.0\.1, which is not public"):
        await send(f"http://app.example:{box.port}/", Allowed())

    assert box.asked == 0


async def test_the_name_is_resolved_once_and_what_was_judged_is_connected_to(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that changes between the look and the connection gains nothing: there is no second look."""
    asked = resolve_to(monkeypatch, "127.0.0.1")

    await send(f"http://app.example:{box.port}/", allowed_from(["127.0.0.1"]))

    assert (asked, box.asked) == (["app.example"], 1)


@pytest.mark.parametrize("pattern", ["localhost", "127.0.0.0/8"])
async def test_what_is_allowed_is_asked(box: Box, pattern: str) -> None:
    await send(f"http://localhost:{box.port}/", allowed_from([pattern]))

    assert box.asked == 1


async def test_without_a_rule_this_machine_is_asked(box: Box) -> None:
    await send(f"http://127.0.0.1:{box.port}/", None)

    assert box.asked == 1


async def test_a_proxy_of_the_environment_is_no_way_around(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{box.port}")
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{box.port}")

    with pytest.raises(NotAccepted, match="not public"):
        await send("http://169.254.169.254/", Allowed())

    assert box.asked == 0
