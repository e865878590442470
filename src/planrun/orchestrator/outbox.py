"""The outbox: sends the stored answers that are owed, until each is confirmed.

An answer was written in the transaction that ended its job; nothing else announces a result. It goes
out at least once, always with the same id and the same bytes, for ever if need be: after 11, 11, 11, 16 …
300 s. Only where nobody is there to take it, it is parked once its result has been kept long enough. Two
processes that send the same message do no harm, and rarely do: a message that was taken is not due again
before its delivery must have ended.

A receiver that hangs keeps nobody else waiting: what takes longer than a moment goes on by itself, and while a
receiver does not answer, one answer at a time is tried there. The others of that receiver wait for their next turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol, assert_never
from urllib.parse import urlsplit

from planrun.clock import Clock
from planrun.core.addresses import Allowed
from planrun.core.durations import span
from planrun.core.errors import Invalid, PlanrunError, TransportUnavailable, Unroutable
from planrun.core.messages import Message
from planrun.core.routes import Command, Publish, Queue, Webhook, check_route
from planrun.ledger.contract import Ledger
from planrun.orchestrator.publisher import Busy, Publisher
from planrun.orchestrator.sweeper import next_look_ms
from planrun.program import ProgramFailed, run_program
from planrun.transport.contract import FleetTransport
from planrun.trip import trip

AT_ONCE_MAX = 32
UNDER_WAY_MAX = 256
PATIENCE_S = 1.0  # who takes longer is not waited for; who fails after longer hangs
DELIVERY_TIMEOUT_S = 10.0
RETRY_MS = 11_000  # longer than a delivery may take
ALARM_AT_TRIES = 10
MSG_ID_VARIABLE = "PLANRUN_MSG_ID"

_log = logging.getLogger("planrun.outbox")


class Webhooks(Protocol):
    """Who sends webhooks. See `webhook.WebhookSender`."""

    async def send(self, url: str, message: Message, *, wall_ms: int) -> None: ...

    async def close(self) -> None: ...


class _UnderWay(NamedTuple):
    """One delivery, and to whom."""

    address: str
    task: asyncio.Task[None]


class Outbox:
    """Takes what is owed, delivers it, confirms it. Belongs to one event loop."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        *,
        publisher: Publisher,
        environment: Mapping[str, str],
        webhook_secret: str = "",
        webhooks_allowed: Allowed | None = None,
        webhooks: Webhooks | None = None,
        broker: FleetTransport | None = None,
    ) -> None:
        """
        Args:
            publisher: Writes the files of `publish:` routes.
            environment: What the programs of `command:` routes see.
            webhook_secret: Signs webhooks; empty: they are not signed.
            webhooks_allowed: Where webhooks may go; None: anywhere.
            webhooks: Who sends them; None: over the network.
            broker: Puts answers into the queues of `rabbitmq:` routes.
        """
        self._ledger = ledger
        self._clock = clock
        self._environment = environment
        self._webhook_secret = webhook_secret
        self._webhooks_allowed = webhooks_allowed
        self._webhooks = webhooks
        self._broker = broker
        self._publisher = publisher
        self._publishing: dict[str, asyncio.Task[None]] = {}
        self._under_way: dict[str, _UnderWay] = {}  # by message
        self._hanging: set[str] = set()  # addresses that let the last delivery wait in vain
        self._failures: list[BaseException] = []  # of deliveries, since the last look: the ledger could not be told
        self._resting_ms: dict[str, int] = {}  # until when a receiver wants nothing, by address

    async def tick(self, now_ms: int) -> int:
        """Deliver what is due, and wait a moment for it.

        Returns:
            When to look again, boottime milliseconds; earlier after any change of the ledger.

        Raises:
            LedgerUnavailable: Also where a delivery of before had ended, and the ledger could not be told.
        """
        due = await self._ledger.due()
        if due.messages:
            await self._deliver_what_is_due()
        if self._failures:  # the others are delivered all the same
            failure, self._failures = self._failures[0], []
            raise failure
        return now_ms if due.messages else next_look_ms(due, now_ms)

    async def wait_until_idle(self) -> None:
        """Wait for what is being delivered."""
        if tasks := self._tasks():
            await asyncio.wait(tasks)

    async def close(self) -> None:
        """Give up what is under way: it goes out again, and perhaps from somewhere else."""
        self._publisher.close()
        tasks = self._tasks()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *self._publishing.values(), return_exceptions=True)
        if self._webhooks is not None:
            await self._webhooks.close()

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [each.task for each in self._under_way.values()]

    async def _deliver_what_is_due(self) -> None:
        room = min(AT_ONCE_MAX, UNDER_WAY_MAX - len(self._under_way))
        if not room:
            await asyncio.wait(self._tasks(), return_when=asyncio.FIRST_COMPLETED)
            return
        messages = await self._ledger.take_messages(limit=room, retry_ms=RETRY_MS)
        begun = [task for message in messages if (task := await self._begin(message)) is not None]
        if begun:
            await asyncio.wait(begun, timeout=PATIENCE_S)

    async def _begin(self, message: Message) -> asyncio.Task[None] | None:
        """Let it go out. None: that is not worth waiting for."""
        if message.msg_id in self._under_way:  # its receiver has it, and the ledger has not heard of it for long
            return None
        try:
            route = check_route(message.route)
        except Invalid as error:  # written by a planrun that knows more routes than this one
            self._say(message, str(error))
            return None
        if isinstance(route, Publish):
            self._begin_to_publish(message, route)
            return None
        address = urlsplit(route.url).netloc if isinstance(route, Webhook) else message.route
        hangs = address in self._hanging
        if hangs and any(address == each.address for each in self._under_way.values()):
            self._say(message, f"{address} hangs: until it answers, one answer at a time is tried there")
            return None
        task = asyncio.create_task(self._deliver(message, route, address))
        self._under_way[message.msg_id] = _UnderWay(address, task)
        task.add_done_callback(partial(self._end, message.msg_id))
        return None if hangs else task

    def _end(self, msg_id: str, task: asyncio.Task[None]) -> None:
        del self._under_way[msg_id]
        if not task.cancelled() and (failure := task.exception()) is not None:
            self._failures.append(failure)

    async def _deliver(self, message: Message, route: Webhook | Queue | Command, address: str) -> None:
        trip("outbox:taken")
        try:
            await self._try(message, route, address)
        except _NobodyThere as error:
            if message.tries < ALARM_AT_TRIES or not await self._ledger.park(message.msg_id, detail=str(error)):
                self._say(message, str(error))
        except _Undelivered as error:
            self._say(message, str(error))
        else:
            trip("outbox:sent")
            await self._ledger.confirm(message.msg_id)
            trip("outbox:confirmed")

    async def _try(self, message: Message, route: Webhook | Queue | Command, address: str) -> None:
        """Send it, and learn whether who lives there hangs: only to wait in vain is to hang."""
        began_ms = self._clock.boot_ms()
        try:
            await self._send(message, route)
        except _Undelivered:
            if self._clock.boot_ms() - began_ms >= PATIENCE_S * 1000:
                self._hanging.add(address)
            else:
                self._hanging.discard(address)
            raise
        self._hanging.discard(address)

    async def _send(self, message: Message, route: Webhook | Queue | Command) -> None:
        match route:
            case Webhook(url):
                await self._send_webhook(url, message)
            case Queue(name):
                await self._enqueue(name, message)
            case Command(argv):
                await self._run_command(argv, message)
            case _:
                assert_never(route)

    def _begin_to_publish(self, message: Message, route: Publish) -> None:
        """A large file takes its time: nobody else's answer waits for it."""
        if message.msg_id not in self._publishing:
            task = asyncio.create_task(self._publish(message, route))
            self._publishing[message.msg_id] = task
            task.add_done_callback(lambda _: self._publishing.pop(message.msg_id))

    async def _publish(self, message: Message, route: Publish) -> None:
        try:
            said = await self._publisher.publish(message.body, route)
            await self._ledger.confirm(message.msg_id, what=said.what, detail=said.detail)
        except Busy:
            _log.debug("%s is not published now", route.name)
        except PlanrunError as error:
            self._say(message, str(error))
        except Exception:
            _log.exception("%s could not be published, and is tried again", route.name)

    def _say(self, message: Message, why: str) -> None:
        level = logging.ERROR if message.tries >= ALARM_AT_TRIES else logging.WARNING
        _log.log(level, "answer %s is not delivered (try %d): %s", message.msg_id, message.tries, why)

    async def _send_webhook(self, url: str, message: Message) -> None:
        # The HTTP client takes 0.15 s to import: only those pay who have a webhook.
        from planrun.orchestrator.webhook import Gone, NotAccepted, WebhookSender  # noqa: PLC0415

        now_ms = self._clock.boot_ms()
        if now_ms < (until_ms := self._resting_ms.pop(url, 0)):
            self._resting_ms[url] = until_ms
            raise _Undelivered(f"{url} wants nothing for another {span(until_ms - now_ms)} (Retry-After)")
        if self._webhooks is None:
            self._webhooks = WebhookSender(secret=self._webhook_secret, allowed=self._webhooks_allowed)
        try:
            async with asyncio.timeout(DELIVERY_TIMEOUT_S):
                await self._webhooks.send(url, message, wall_ms=self._clock.now().wall_ms)
        except TimeoutError:
            raise _Undelivered(f"no answer within {DELIVERY_TIMEOUT_S:g} s") from None
        except Gone as error:
            raise _NobodyThere(f"{url}: {error}") from None
        except NotAccepted as error:
            if error.rest_s:
                self._resting_ms[url] = now_ms + round(error.rest_s * 1000)
            raise _Undelivered(str(error)) from None

    async def _enqueue(self, queue: str, message: Message) -> None:
        if self._broker is None:
            raise _Undelivered(f"queue {queue}: this planrun has no broker any more; give it one with --broker")
        try:
            async with asyncio.timeout(DELIVERY_TIMEOUT_S):
                await self._broker.deliver(queue, message)
        except TimeoutError:
            raise _Undelivered(f"queue {queue}: not confirmed within {DELIVERY_TIMEOUT_S:g} s") from None
        except Unroutable:
            raise _NobodyThere(f"queue {queue}: there is no such queue; declare it, durable") from None
        except TransportUnavailable as error:
            raise _Undelivered(f"queue {queue}: {error}") from None

    async def _run_command(self, argv: Sequence[str], message: Message) -> None:
        environment = {**self._environment, MSG_ID_VARIABLE: message.msg_id}
        body = message.body.encode()
        try:
            await run_program(argv, stdin=body, timeout_s=DELIVERY_TIMEOUT_S, environment=environment)
        except ProgramFailed as error:
            raise _Undelivered(str(error)) from None


class _Undelivered(Exception):
    """This try failed; the message stays owed."""


class _NobodyThere(_Undelivered):
    """Who was to be told is not there any more, or not yet: the message stays owed as long as its result is kept."""
