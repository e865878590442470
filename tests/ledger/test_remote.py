"""What a remote ledger makes of servers that are away, old, foreign or broken. A raw server plays them."""

from __future__ import annotations

import asyncio
import inspect
import re
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from planrun.client import AsyncClient
from planrun.clock import SystemClock
from planrun.core.errors import Conflict, Invalid, LedgerBusy, LedgerUnavailable, LedgerUnusable, PlanrunError
from planrun.core.life import State
from planrun.core.messages import (
    CancelRequest,
    JobRow,
    Lease,
    RenewRequest,
    Result,
    Standing,
    SubmitReply,
    SubmitRequest,
)
from planrun.core.problems import Problem, error_of
from planrun.ledger.contract import Ledger
from planrun.ledger.remote.ledger import RemoteLedger, open_remote, shifted
from planrun.ledger.wire import BOOT_HEADER, PROTOCOL_HEADER, REPLY_S, VERBS, reach_of
from planrun.storage.remote import RemoteStore
from planrun.wiring import silence_ms

pytestmark = pytest.mark.anyio

DUTIES = {
    "due", "adopt_epoch", "expire", "bury", "promote", "end_overdue", "end_unsupported", "take_messages", "confirm",
    "park", "holder_of", "garbage", "collected", "doubt", "keep", "stale", "records", "drop", "backup",
}  # fmt: skip
LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
REQUEST = SubmitRequest(request_id="r1", kind="preview", content_hash="c", request_hash="r")
REPLY = [SubmitReply(job_id="j1", disposition="new", state=State.QUEUED)]
CANCEL = CancelRequest(namespace="default", job_id="j1")
RENEW = RenewRequest(incarnation="w1", beats=(), lease_ms=60_000)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def answered(value: Any) -> bytes:
    return written(200, msgspec.json.encode(value))


def refused(status: int, slug: str, detail: str, **more: Any) -> bytes:
    return written(status, msgspec.json.encode(Problem(type=slug, title="", status=status, detail=detail, **more)))


def written(status: int, body: bytes, *, planrun: bool = True) -> bytes:
    ours = f"{PROTOCOL_HEADER}: 1\r\n{BOOT_HEADER}: {SystemClock.open_system().boot_ms()}\r\n" if planrun else ""
    return f"HTTP/1.1 {status} x\r\ncontent-length: {len(body)}\r\n{ours}\r\n".encode() + body


@dataclass
class Server:
    """Attributes:
    reply: Path → the bytes to be sent; empty: the connection is closed without any; None: nothing, ever.
    asked: The paths of all requests.
    """

    reply: Callable[[str], bytes | None]
    asked: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.asked.append(head.split()[1].decode())
                length = next(
                    (int(line.split(b":")[1]) for line in head.lower().splitlines() if line[:15] == b"content-length:"),
                    0,
                )
                await reader.readexactly(length)
                reply = self.reply(self.asked[-1])
                if reply is None:
                    await reader.read()
                if not reply:
                    break
                writer.write(reply)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def remote(reply: Callable[[str], bytes | None], *, wait_s: float = 5) -> AsyncIterator[tuple[Ledger, Server]]:
    server = Server(reply)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    ledger = open_remote(f"http://127.0.0.1:{port}", SystemClock.open_system(), token="", tls=None, wait_s=wait_s)
    try:
        yield ledger, server
    finally:
        await ledger.close()
        listening.close()


async def error_from(reply: Callable[[str], bytes | None]) -> PlanrunError:
    async with remote(reply, wait_s=0.1) as (ledger, _):
        with pytest.raises(PlanrunError) as caught:
            await ledger.submit([REQUEST])
    assert len(str(caught.value).splitlines()) == 1
    return caught.value


def test_every_verb_of_the_contract_is_served_or_a_duty() -> None:
    verbs = {name for name, _ in inspect.getmembers(Ledger, inspect.isfunction) if not name.startswith("_")}

    assert set(VERBS) | DUTIES == verbs - {"close"}
    assert set(VERBS) & DUTIES == set()
    assert all(hasattr(RemoteLedger, name) for name in verbs)


async def test_a_duty_is_not_done_from_afar() -> None:
    async with remote(lambda path: answered(0)) as (ledger, server):
        with pytest.raises(Invalid, match="only the orchestrator"):
            await ledger.expire(stamp_ms=1)
    assert server.asked == []


def test_a_call_says_what_it_reaches() -> None:
    reach = reach_of(VERBS["submit"].asking([REQUEST]))
    assert reach.namespaces == ("default",)
    assert reach_of(VERBS["job"].asking(None, "j1")).namespaces == (None,)
    lease = Lease(job_id="j1", attempt=1, token=7)
    assert reach_of(VERBS["standing"].asking(lease, [])).jobs == ("j1",)
    assert reach_of(VERBS["renew"].asking(RENEW)).incarnations == ("w1",)


@pytest.mark.parametrize("is_reset", [False, True])
async def test_a_server_that_hangs_up_at_once_may_speak_tls(is_reset: bool) -> None:
    """One that has not read everything by then resets the connection."""

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        if is_reset:
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.close()

    listening = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    ledger = open_remote(address, SystemClock.open_system(), token="", tls=None, wait_s=0.1)
    with pytest.raises(LedgerUnavailable, match="https://"):
        await ledger.counts(None)
    await ledger.close()
    listening.close()


async def test_nobody_there_is_said_with_the_address() -> None:
    async with remote(lambda path: b"") as (ledger, _):
        pass
    ledger = open_remote("http://127.0.0.1:9", SystemClock.open_system(), token="", tls=None, wait_s=0.1)
    with pytest.raises(LedgerUnavailable, match=r"http://127\.0\.0\.1:9 gives no answer .*nothing was asked"):
        await ledger.counts(None)
    await ledger.close()


async def test_a_server_that_is_none_of_planrun_is_unusable() -> None:
    error = await error_from(lambda path: written(200, b"<html>hello</html>", planrun=False))

    assert isinstance(error, LedgerUnusable)
    assert "no orchestrator" in str(error)


async def test_a_proxy_without_its_orchestrator_is_one_that_gives_no_answer() -> None:
    error = await error_from(lambda path: written(502, b"<html>bad gateway</html>", planrun=False))

    assert type(error) is LedgerUnavailable


@pytest.mark.parametrize("body", [b"", b"{", b'{"no": "list"}', b"\xff\xfe", b"[" * 5000])
async def test_a_reply_that_is_none_leaves_the_caller_without_an_answer(body: bytes) -> None:
    error = await error_from(lambda path: written(200, body))

    assert type(error) is LedgerUnavailable
    assert "no reply to this" in str(error)


async def test_an_older_orchestrator_is_to_be_upgraded_first() -> None:
    error = await error_from(
        lambda path: refused(404, "no-such-verb", "this orchestrator knows no such verb: upgrade it")
    )

    assert isinstance(error, LedgerUnusable)
    assert "upgrade" in str(error)


@pytest.mark.parametrize(("status", "slug"), [(401, "no-token"), (403, "wrong-scope")])
async def test_a_token_that_opens_nothing_ends_the_matter(status: int, slug: str) -> None:
    assert isinstance(await error_from(lambda path: refused(status, slug, "ask for a token")), LedgerUnusable)


async def test_errors_come_back_as_what_they_were() -> None:
    conflict = await error_from(lambda path: refused(409, "conflict", "taken", job_id="j9"))
    busy = await error_from(lambda path: refused(503, "ledger-busy", "busy", holder_pid=4711))

    assert isinstance(conflict, Conflict)
    assert conflict.job_id == "j9"
    assert isinstance(busy, LedgerBusy)
    assert busy.holder_pid == 4711
    assert type(error_of(Problem(type="stopping", title="", status=503, detail="stops"))) is LedgerUnavailable


async def test_a_lost_reply_is_asked_for_again_where_that_changes_nothing() -> None:
    replies = iter([b"", refused(503, "stopping", "this server stops"), answered(REPLY)])
    async with remote(lambda path: next(replies)) as (ledger, server):
        assert await ledger.submit([REQUEST]) == REPLY
    assert server.asked == ["/v1/ledger/submit"] * 3


async def test_what_may_have_been_done_is_still_so_when_nobody_listens_any_more() -> None:
    """Killed between commit and reply: that later tries asked for nothing says nothing of the first one."""

    def leave(_: str) -> bytes:
        listening.close()
        return b""

    server = Server(leave)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    ledger = open_remote(url, SystemClock.open_system(), token="", tls=None, wait_s=0.1)

    with pytest.raises(LedgerUnavailable, match="may or may not"):
        await ledger.submit([REQUEST])

    assert server.asked == ["/v1/ledger/submit"]
    await ledger.close()


async def test_a_lost_reply_of_a_cancel_is_not_asked_for_again_behind_the_callers_back() -> None:
    async with remote(lambda path: b"") as (ledger, server):
        with pytest.raises(LedgerUnavailable, match="may or may not"):
            await ledger.cancel(CANCEL)
    assert server.asked == ["/v1/ledger/cancel"]


async def test_heartbeats_do_not_wait_behind_what_hangs() -> None:
    standings = [Standing(status="held")]
    async with remote(lambda path: answered(standings) if path.endswith("renew") else None) as (ledger, _):
        hanging = [asyncio.create_task(ledger.submit([REQUEST])) for _ in range(200)]
        await asyncio.sleep(0)
        async with asyncio.timeout(10):
            assert await ledger.renew(RENEW) == standings
        for task in hanging:
            task.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)


async def test_waiting_for_a_change_outlives_a_server_that_is_away() -> None:
    async with remote(lambda path: b"") as (ledger, _):
        async with asyncio.timeout(10):
            await ledger.changed(timeout_s=0.01)


def a_row(state: State) -> JobRow:
    return JobRow(
        job_id="j", namespace="default", kind="k", version="v1", state=state, attempt=1, failures=0, max_attempts=4,
        losses=0, max_losses=8, handbacks=0, max_handbacks=20, created_at_ms=5, lease_until_ms=100,
    )  # fmt: skip


async def test_whoever_waits_outlives_an_orchestrator_that_is_away() -> None:
    result = Result(
        job_id="j", namespace="default", kind="k", version="v1", state=State.FINISHED, attempt=1, value=9, ended_at_ms=9
    )
    looks = iter([answered(a_row(State.RUNNING)), *[b""] * 6, answered(a_row(State.FINISHED))])

    def reply(path: str) -> bytes:
        if path.endswith("/result"):
            return answered(result)
        return answered("seen-1") if path.endswith("/changed") else next(looks)

    async with remote(reply, wait_s=0) as (ledger, server):
        client = AsyncClient.over(ledger, RemoteStore("http://x"), url="http://x", clock=SystemClock.open_system())
        assert (await client.wait("j", timeout_s=60)).value == 9
    assert server.asked.count("/v1/ledger/job") == 8


def test_boottimes_come_out_as_those_of_the_readers_machine() -> None:
    row = a_row(State.RUNNING)

    page, cursor = shifted(([row], 3), 1_000)

    assert (page[0].lease_until_ms, page[0].not_before_ms, page[0].created_at_ms, cursor) == (1_100, 0, 5, 3)


async def test_a_connection_that_is_cut_is_given_up_before_a_slow_answer_is() -> None:
    """By the kernel: the other one confirms what arrives, however slow whoever reads it is."""
    async with remote(lambda path: answered(REPLY)) as (ledger, _):
        await ledger.submit([REQUEST])

        assert any(0 < ms < REPLY_S * 1000 for ms in given_up_after_ms())


async def test_how_long_an_answer_is_owed_counts_over_all_questions_until_one_is_answered() -> None:
    replies = iter([b"", b"", answered(REPLY)])
    async with remote(lambda path: next(replies), wait_s=0) as (ledger, _):
        assert silence_ms(ledger) == 0
        with pytest.raises(LedgerUnavailable):
            await ledger.submit([REQUEST])
        await asyncio.sleep(0.01)
        assert silence_ms(ledger) >= 10
        await ledger.submit([REQUEST])
        assert silence_ms(ledger) == 0


def given_up_after_ms() -> list[int]:
    """Of each TCP socket of this process: after how long without a confirmation it is given up; 0: the system's own."""
    found = []
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError), socket.fromfd(int(path.name), socket.AF_INET, socket.SOCK_STREAM) as each:
            found.append(each.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT))
    return found
