"""What asking a broker can raise says what to do."""

from __future__ import annotations

import asyncio

import pytest

from planrun.core.errors import TransportUnavailable
from planrun.transport.rabbitmq.link import asking

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_of_a_queue_that_gives_no_answer_it_is_said_how_to_get_rid_of_it() -> None:
    """A quorum queue that lost its leader within seconds of its making stays so until it is deleted."""
    never = asyncio.Event()
    with pytest.raises(TransportUnavailable, match=r"no leader: rabbitmqctl delete_queue pr\.offers\.x"):
        async with asking("consuming pr.offers.x", timeout_s=0.01, queue="pr.offers.x"):
            await never.wait()
    with pytest.raises(TransportUnavailable, match=r"no answer within 0\.01 s$"):
        async with asking("sending to pr.offers.x", timeout_s=0.01):  # a broker in need takes nothing in, too
            await never.wait()
