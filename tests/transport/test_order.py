"""In which order a broker is told things: what must be over before what. Without a broker."""

from __future__ import annotations

import asyncio
import logging

import pytest
from aiormq import spec
from aiormq.abc import DeliveredMessage
from aiormq.exceptions import ChannelNotFoundEntity, DeliveryError, PublishError
from pamqp.header import ContentHeader

from planrun.clock import SystemClock
from planrun.complaints import Complaints
from planrun.core.errors import TransportUnavailable
from planrun.core.flows import Marker
from planrun.core.messages import Lease
from planrun.transport.intake import BrokerOffer, Intake
from planrun.transport.rabbitmq.fleet import Beats
from planrun.transport.rabbitmq.lane import RabbitLane
from planrun.transport.rabbitmq.link import asking
from planrun.transport.rabbitmq.sender import Sender
from tests.contract.fleet_transport_contract import an_offer
from tests.contract.manual_clock import ManualClock
from tests.contract.transport_contract import a_beat
from tests.transport.channel import Channel, OneChannel

pytestmark = pytest.mark.anyio

LEASE = Lease(job_id="j1", attempt=1, token=1)
COMPLAINTS = Complaints(logging.getLogger("test"), ManualClock())


class Lane:
    """A worker's end of one lane, over a channel that notes everything."""

    def __init__(self) -> None:
        self.channel = Channel()
        self.can_keep = True
        self.intake = Intake(slot_wait_s=60, on_news=lambda: None, complaints=COMPLAINTS)

    async def connect(self) -> None:
        channel = self.channel.as_aiormq
        await self.intake.connect(RabbitLane("q", channel, put_aside=self._put_aside, complaints=COMPLAINTS))

    async def _put_aside(self, *_: object) -> bool:
        self.channel.said.append("put aside")
        return self.can_keep

    async def offered(self, *, free: int = 1) -> BrokerOffer:
        await self.connect()
        await self.intake.take(free)
        await self.channel.deliver(an_offer())
        [offer] = await self.intake.take(free)
        return offer


@pytest.fixture
async def lane() -> Lane:
    return Lane()


# --- offers ---


async def test_the_consumer_is_gone_before_the_offer_that_fills_the_last_place_is_acknowledged(lane: Lane) -> None:
    await (await lane.offered(free=1)).done(LEASE)

    assert lane.channel.said == ["consume", "cancel", "ack 1"]


async def test_while_a_place_is_left_the_consumer_stays(lane: Lane) -> None:
    await (await lane.offered(free=2)).done(LEASE)

    assert lane.channel.said == ["consume", "ack 1"]


async def test_an_offer_that_was_not_granted_takes_no_place(lane: Lane) -> None:
    await (await lane.offered(free=1)).done()

    assert lane.channel.said == ["consume", "ack 1"]


async def test_before_an_offer_goes_back_nothing_is_consumed_any_more(lane: Lane) -> None:
    """Else it would come straight back."""
    await (await lane.offered()).back()
    await lane.intake.take(1)

    assert lane.channel.said == ["consume", "cancel", "nack 1"]


async def test_after_a_rest_it_consumes_again_and_somebody_is_told_so(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("planrun.transport.intake.REST_S", (0.0,))
    rested = asyncio.Event()
    monkeypatch.setattr(lane.intake, "_on_news", rested.set)
    offer = await lane.offered()
    rested.clear()
    await offer.back()
    await asyncio.wait_for(rested.wait(), 10)
    await lane.intake.take(1)

    assert lane.channel.said == ["consume", "cancel", "nack 1", "consume"]


async def test_an_offer_that_comes_when_the_room_has_gone_is_not_held(lane: Lane) -> None:
    await lane.connect()
    await lane.intake.take(1)
    await lane.intake.take(0)
    await lane.channel.deliver(an_offer())  # was under way

    assert lane.channel.said == ["consume", "cancel", "nack 1"]


async def test_an_offer_that_is_held_when_the_room_goes_goes_back(lane: Lane) -> None:
    await lane.connect()
    await lane.intake.take(1)
    await lane.channel.deliver(an_offer())
    assert await lane.intake.take(0) == []

    assert lane.channel.said == ["consume", "cancel", "nack 1"]


async def test_a_strange_offer_is_acknowledged_only_once_it_is_kept(lane: Lane) -> None:
    await (await lane.offered()).strange("the ledger says unknown")

    assert lane.channel.said == ["consume", "put aside", "ack 1"]


async def test_a_strange_offer_that_cannot_be_kept_goes_back(lane: Lane) -> None:
    lane.can_keep = False
    await (await lane.offered()).strange("the ledger says unknown")

    assert lane.channel.said == ["consume", "put aside", "cancel", "nack 1"]


async def test_garbage_is_rejected_and_the_consumer_stays(lane: Lane) -> None:
    await lane.connect()
    await lane.intake.take(1)
    await lane.channel.deliver(b"garbage")

    assert lane.channel.said == ["consume", "reject 1"]


async def test_a_new_channel_is_consumed_as_the_old_one_was(lane: Lane) -> None:
    await lane.offered()
    lane.channel = Channel()
    await lane.connect()

    assert lane.channel.said == ["consume"]


# --- heartbeats ---


async def a_place_of_heartbeats(breaks: list[str]) -> tuple[Channel, Beats]:
    channel = Channel()
    beats = Beats(channel.as_aiormq, lambda: breaks.append("break"), COMPLAINTS)
    await beats.consume("q")
    return channel, beats


async def test_heartbeats_are_acknowledged_once_more_are_asked_for() -> None:
    """By then they are in the ledger."""
    channel, beats = await a_place_of_heartbeats([])
    for n in (1, 2):
        await channel.deliver(a_beat(Lease(job_id="j", attempt=1, token=n)))
    assert len(await beats.take(1)) == 2
    assert channel.said == ["consume"]

    assert list(await beats.take(0)) == []
    assert channel.said == ["consume", "ack 2"]


@pytest.mark.parametrize("how", ["the channel closes", "the consumer is canceled", "both"])
async def test_whatever_interrupts_heartbeats_is_one_break_and_what_came_before_is_void(how: str) -> None:
    breaks: list[str] = []
    channel, beats = await a_place_of_heartbeats(breaks)
    await channel.deliver(Marker(stamp_ms=1, nonce="n"))
    if how != "the channel closes":
        for heard in channel.on_consumer_cancel_callbacks:
            heard(spec.Basic.Cancel())
    if how != "the consumer is canceled":
        channel.closing.set_result(None)
        await asyncio.sleep(0)

    assert list(await beats.take(0)) == []
    assert breaks == ["break"]


# --- sending ---


def returned(channel: Channel) -> PublishError:
    back = spec.Basic.Return(reply_code=312, reply_text="NO_ROUTE", exchange="", routing_key="q")
    return PublishError(DeliveredMessage(back, ContentHeader(), b"", channel.as_aiormq), back)


def a_sender(channel: Channel) -> Sender:
    return Sender(OneChannel(channel).as_link, SystemClock.open_system())


async def test_what_is_confirmed_has_arrived() -> None:
    channel = Channel()

    assert await a_sender(channel).send(an_offer(), "q")
    assert channel.said == ["publish mandatory"]


@pytest.mark.parametrize("refusal", ["returned", "no exchange"])
async def test_what_was_returned_has_not_arrived(refusal: str) -> None:
    """C23: the broker confirms it, too."""
    channel = Channel()
    channel.refuse = ChannelNotFoundEntity("no exchange") if refusal == "no exchange" else returned(channel)

    assert not await a_sender(channel).send(an_offer(), "q")


async def test_of_what_was_not_confirmed_nothing_is_known() -> None:
    channel = Channel()
    channel.refuse = DeliveryError(None, spec.Basic.Nack())

    with pytest.raises(TransportUnavailable):
        await a_sender(channel).send(an_offer(), "q")


async def test_a_connection_that_goes_is_not_mistaken_for_being_told_to_stop() -> None:
    """The client library cancels what waits for an answer; a worker must not end of that."""

    async def ask() -> None:
        async with asking("something"):
            raise asyncio.CancelledError

    with pytest.raises(TransportUnavailable, match="connection was lost"):
        await ask()

    async def wait_for_ever() -> None:
        async with asking("something"):
            await asyncio.Event().wait()

    waiting = asyncio.create_task(wait_for_ever())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
