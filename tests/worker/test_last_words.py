"""A worker that ends waits for an orchestrator that is away as long as its grace, and a moment."""

from __future__ import annotations

import asyncio

import pytest

from planrun.core.errors import LedgerUnavailable
from planrun.worker.last_words import before_the_end
from planrun.worker.orders import Orders
from tests.contract.manual_clock import ManualClock

PATIENCE_S = 5.0

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Ending:
    """Somebody asks what nobody answers, on a clock that is moved by hand: its sleeps pass at once, and are noted."""

    def __init__(self, *, grace_s: float = 0) -> None:
        self.clock = ManualClock()
        self.orders = Orders()
        self.answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.asking = asyncio.create_task(
            before_the_end(self._ask(), orders=self.orders, clock=self.clock, grace_s=grace_s)
        )

    async def _ask(self) -> str:
        return await self.answer

    async def goes_on(self) -> bool:
        await asyncio.wait({self.asking}, timeout=0.1)
        return not self.asking.done()

    async def end(self) -> str:
        async with asyncio.timeout(PATIENCE_S):
            return await self.asking

    def drain(self, *, hurry: bool = False) -> None:
        self.orders.give(hand_back_ms=self.clock.boot_ms(), hurry=hurry)


async def test_whoever_is_not_told_to_end_waits_for_ever() -> None:
    ending = Ending()
    ending.clock.advance(10_000)
    assert await ending.goes_on()
    ending.answer.set_result("won")
    assert await ending.asking == "won"


@pytest.mark.parametrize("order", ["drain", "abandon"])
async def test_once_told_to_end_a_moment_is_left(order: str) -> None:
    ending = Ending()
    assert await ending.goes_on()
    if order == "drain":
        ending.drain()
    else:
        ending.orders.give(abandon=True)
    with pytest.raises(LedgerUnavailable, match="goes on elsewhere"):
        await ending.end()


async def test_the_grace_of_a_drain_counts_from_its_order_and_a_second_order_ends_it() -> None:
    ending = Ending(grace_s=300)
    ending.drain()
    ending.clock.advance(299)
    assert await ending.goes_on()
    ending.drain(hurry=True)
    with pytest.raises(LedgerUnavailable):
        await ending.end()


async def test_an_answer_within_the_grace_counts() -> None:
    ending = Ending(grace_s=300)
    ending.drain()
    assert await ending.goes_on()
    ending.answer.set_result("won")
    assert await ending.asking == "won"
