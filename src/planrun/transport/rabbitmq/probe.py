"""What a broker really does for a fleet, found out by doing it: for `planrun check`."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from aiormq.abc import DeliveredMessage

from planrun.clock import Clock
from planrun.core.errors import TransportUnavailable
from planrun.transport.contract import BrokerReport
from planrun.transport.rabbitmq.address import Broker
from planrun.transport.rabbitmq.link import ASK_S, Link, NoQueue, asking, declare, look_at
from planrun.transport.rabbitmq.sender import Sender
from planrun.transport.rabbitmq.topology import Topology

OLDEST = (3, 10)
RIGHTS = "its account may not do all that is needed; deploy/rabbitmq/accounts.sh has the rights"
ALARM = "confirms nothing; a broker that is short of memory or disk takes nothing in: rabbitmq-diagnostics alarms"


async def probe(broker: Broker, clock: Clock, *, owns: bool) -> BrokerReport:
    """Make two queues as a fleet has them, send a message, take it, and delete them.

    Args:
        owns: With the account of the orchestrator, which makes more than a worker.

    Raises:
        TransportUnavailable: It cannot be reached, or lets nobody in.
    """
    link, sender = (
        Link(broker.url, clock, name="planrun check"),
        Sender(Link(broker.url, clock, name="planrun check"), clock),
    )
    name = f"check-{clock.new_id()[:8]}"
    lane, control = broker.topology.offers(name), broker.topology.control(name)
    try:
        product = await link.product()
        problems = [] if _is_new_enough(product) else [f"the broker is {product}; planrun needs RabbitMQ 3.10 or newer"]
        took_ms = returns = None
        try:
            await declare(link, control)
            await declare(link, lane)
            if owns:
                async with link.borrowed() as channel, asking(f"declaring {broker.topology.beat_exchange}"):
                    await channel.exchange_declare(broker.topology.beat_exchange, exchange_type="fanout", durable=True)
            took_ms = await _round_trip(link, sender, lane.name, clock)
            returns = not await sender.send_raw(b"{}", {}, f"{lane.name}-nowhere")
            if not returns:
                problems.append(f"the broker at {broker} confirms what it has no queue for: answers would be lost")
            for queue in (lane, control):
                async with link.borrowed() as channel, asking(f"deleting the queue {queue.name}"):
                    await channel.queue_delete(queue.name)
            problems += await _put_aside(link, broker.topology)
        except TransportUnavailable as error:
            problems.append(_in_words(broker, str(error)))
        return BrokerReport(product, took_ms, returns, tuple(problems))
    finally:
        await link.drop()
        await sender.close()


async def _put_aside(link: Link, topology: Topology) -> list[str]:
    """What lies where nothing should, and what to do.

    Raises:
        TransportUnavailable: No answer.
    """
    problems = []
    for queue, what in (
        (topology.dead, "could not be read, or were delivered too often: see who sends them."),
        (
            topology.orphans,
            "are offers of jobs that the ledger does not know: was it restored, or do two share a prefix?",
        ),
    ):
        with suppress(NoQueue):
            if count := await look_at(link, queue):
                problems.append(f"messages in the broker's {queue.name}: {count}; they {what} Then purge it")
    return problems


async def _round_trip(link: Link, sender: Sender, queue: str, clock: Clock) -> int:
    """
    Raises:
        TransportUnavailable: The message was not confirmed, or has not arrived.
    """
    arrived = asyncio.Event()

    async def take(message: DeliveredMessage) -> None:
        arrived.set()

    began_ms = clock.boot_ms()
    await sender.send_raw(b"{}", {}, queue)
    async with link.borrowed() as channel, asking(f"taking a message out of {queue}", timeout_s=ASK_S):
        await channel.basic_consume(queue, take, no_ack=True)
        await arrived.wait()
    return clock.boot_ms() - began_ms


def _in_words(broker: Broker, said: str) -> str:
    if "ACCESS_REFUSED" in said:
        return f"the broker at {broker}: {said}: {RIGHTS}"
    if said.startswith("sending to") and "no answer" in said:
        return f"the broker at {broker} {ALARM}"
    return f"the broker at {broker}: {said}"


def _is_new_enough(product: str) -> bool:
    """True also for what does not say which it is."""
    version = product.rpartition(" ")[2].split(".")
    with suppress(ValueError):
        return tuple(map(int, version[:2])) >= OLDEST
    return True
