"""The outbox: sends the stored answers that are owed, until each is confirmed.

An answer was written in the transaction that ended its job; nothing else announces a result. It goes
out at least once, always with the same id and the same bytes, for ever if need be: after 11, 11, 11, 16 …
300 s. Only where nobody is there to take it, it is parked once its result has been kept long enough. Two
processes that send the same message do no harm, and rarely do: a message that was taken is not due again
before its delivery must have ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Protocol, assert_never

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
DELIVERY_TIMEOUT_S = 10.0
RETRY_MS = 11_000  # longer than a delivery may take
ALARM_AT_TRIES = 10
MSG_ID_VARIABLE = "PLANRUN_MSG_ID"

_log = logging.getLogger("planrun.outbox")


class Webhooks(Protocol):
    """Who sends webhooks. See `webhook.WebhookSender`."""

    async def send(self, url: str, message: Message, *, wall_ms: int) -> None: ...

    async def close(self) -> None: ...


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
        self._resting_ms: dict[str, int] = {}  # until when a receiver wants nothing, by address

    async def tick(self, now_ms: int) -> int:
        """Deliver what is due, at most as long as one delivery may take.

        Returns:
            When to look again, boottime milliseconds; earlier after any change of the ledger.
        """
        due = await self._ledger.due()
        if not due.messages:
            return next_look_ms(due, now_ms)
        messages = await self._ledger.take_messages(limit=AT_ONCE_MAX, retry_ms=RETRY_MS)
        ends = await asyncio.gather(*map(self._deliver, messages), return_exceptions=True)
        for end in ends:
            if isinstance(end, BaseException):  # the others are delivered all the same
                raise end
        return now_ms

    async def close(self) -> None:
        self._publisher.close()
        await asyncio.gather(*self._publishing.values(), return_exceptions=True)
        if self._webhooks is not None:
            await self._webhooks.close()

    async def _deliver(self, message: Message) -> None:
        try:
            route = check_route(message.route)
        except Invalid as error:  # written by a planrun that knows more routes than this one
            self._say(message, str(error))
            return
        if isinstance(route, Publish):
            self._begin_to_publish(message, route)
            return
        trip("outbox:taken")
        try:
            await self._send(message, route)
        except _NobodyThere as error:
            if message.tries < ALARM_AT_TRIES or not await self._ledger.park(message.msg_id, detail=str(error)):
                self._say(message, str(error))
        except _Undelivered as error:
            self._say(message, str(error))
        else:
            trip("outbox:sent")
            await self._ledger.confirm(message.msg_id)
            trip("outbox:confirmed")

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
