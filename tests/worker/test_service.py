"""What a service manager hears: ready, at work as long as no loop is stuck, ending."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn, cast

import pytest

from planrun.clock import SystemClock
from planrun.core.messages import Lease, RenewRequest
from planrun.service import Overseer, Returns
from planrun.transport.contract import WorkerTransport
from planrun.worker.keeper import Keeper
from planrun.worker.options import WorkerOptions

pytestmark = pytest.mark.anyio

CLOCK = SystemClock.open_system()


@pytest.fixture
def heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    monkeypatch.chdir(tmp_path)  # such a path may have 107 characters
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind("notify")
        heard.setblocking(False)
        yield heard


async def hear(heard: socket.socket) -> str:
    async with asyncio.timeout(10):
        return (await asyncio.get_running_loop().sock_recv(heard, 1000)).decode()


async def test_it_is_ready_then_at_work_then_ending(heard: socket.socket) -> None:
    async with Overseer("notify", watchdog_s=0.04).watching(Returns(), CLOCK):
        assert [await hear(heard) for _ in range(4)] == ["READY=1", *["WATCHDOG=1"] * 3]

    said = "WATCHDOG=1"
    while said == "WATCHDOG=1":
        said = await hear(heard)
    assert said == "STOPPING=1"


async def test_the_watchdog_is_not_fed_while_a_loop_is_late_and_again_once_it_is_back(
    heard: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    returns = Returns()
    returns.say("idle", CLOCK.boot_ms() + 3_600_000)
    returns.say("stuck", CLOCK.boot_ms() - 10_000)

    async with Overseer("notify", watchdog_s=0.04).watching(returns, CLOCK):
        assert await hear(heard) == "READY=1"
        async with asyncio.timeout(10):
            while "stuck, 10 s late" not in caplog.text:
                await CLOCK.sleep(0.005)
        with pytest.raises(BlockingIOError):
            heard.recv(1000)
        returns.leave("stuck")
        assert await hear(heard) == "WATCHDOG=1"


async def test_an_abstract_socket_is_told_too() -> None:
    name = f"planrun-{os.getpid()}-{CLOCK.new_id()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(f"\0{name}")
        heard.setblocking(False)
        async with Overseer(f"@{name}").watching(Returns(), CLOCK):
            assert await hear(heard) == "READY=1"


async def test_an_overseer_that_is_gone_costs_a_line_in_the_log(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    async with Overseer(str(tmp_path / "nobody")).watching(Returns(), CLOCK):
        pass

    assert "does not listen" in caplog.text


def test_a_watchdog_that_is_meant_for_another_process_is_not_fed() -> None:
    told = {"NOTIFY_SOCKET": "/run/notify", "WATCHDOG_USEC": "180000000"}

    assert Overseer.of({}) == Overseer("", 0)
    assert Overseer.of(told) == Overseer("/run/notify", 180)
    assert Overseer.of({**told, "WATCHDOG_PID": str(os.getpid())}).watchdog_s == 180
    assert Overseer.of({**told, "WATCHDOG_PID": "1"}).watchdog_s == 0


async def test_heartbeats_that_hang_are_late() -> None:
    class Hanging:
        async def beat(self, request: RenewRequest) -> NoReturn:
            hangs.set()
            await asyncio.Event().wait()
            raise AssertionError

    hangs, stop = asyncio.Event(), asyncio.Event()
    keeper = Keeper(cast("WorkerTransport", Hanging()), CLOCK, WorkerOptions(modules=(), lease_s=60), "w1")
    keeper.hold(Lease(job_id="j1", attempt=1, token=1), asked_ms=CLOCK.boot_ms() - 50_000)
    keeper._sent_ms -= 50_000
    running = asyncio.create_task(keeper.run(stop))
    async with asyncio.timeout(10):
        await hangs.wait()
    running.cancel()

    hour_ms = 3_600_000
    assert keeper.returns.late_ms(CLOCK.boot_ms() + hour_ms) > hour_ms - 1000
