"""How answers come in: a webhook, and a queue. Both acknowledge after the books are written, never before.

POST /answers       signed by planrun; 204 if it is booked, 400 if it is not planrun's
GET  /bookings      what was booked, as JSON
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aio_pika
from aio_pika.abc import AbstractIncomingMessage
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from examples.receiver_app.books import Books
from planrun import Invalid
from planrun.inbox import read, verify

AFTER_ERROR_S = 1.0
BODY_BYTES_MAX = 4 * 2**20
log = logging.getLogger(__name__)


def build_app(books: Books, *, secret: str, amqp: str = "", queue: str = "") -> Starlette:
    """The app, which listens to a queue as well if one is named."""

    async def answers(request: Request) -> Response:
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > BODY_BYTES_MAX:
                return PlainTextResponse("too large", 413)
        try:
            answer = verify(request.headers, body, secret)
        except Invalid as error:
            return PlainTextResponse(str(error), 400)
        await asyncio.to_thread(books.book, answer)  # if it fails the answer is 500, and planrun sends it again
        return Response(status_code=204)

    async def bookings(request: Request) -> Response:
        return JSONResponse(await asyncio.to_thread(books.lines))

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await asyncio.to_thread(books.forget)
        listening = asyncio.create_task(listen(books, amqp, queue)) if queue else None
        yield
        if listening is not None:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    routes = [Route("/answers", answers, methods=["POST"]), Route("/bookings", bookings)]
    return Starlette(routes=routes, lifespan=lifespan)


async def listen(books: Books, amqp: str, queue: str) -> None:
    """Take answers out of the queue, for as long as the app runs, through every loss of the broker."""
    while True:
        try:
            async with await aio_pika.connect(amqp) as connection:
                channel = await connection.channel()
                await channel.set_qos(prefetch_count=10)
                declared = await channel.declare_queue(queue, durable=True)
                async with declared.iterator() as messages:
                    async for message in messages:
                        await take(books, message)
        except Exception as error:  # it comes again: nothing was acknowledged
            log.warning("queue %s: %s; listening again in a moment", queue, error)
        await asyncio.sleep(AFTER_ERROR_S)


async def take(books: Books, message: AbstractIncomingMessage) -> None:
    try:
        answer = read(message.body)
    except Invalid as error:
        log.error("queue: %s", error)
        await message.reject()  # into the queue's dead letters, if it has any
        return
    await asyncio.to_thread(books.book, answer)
    await message.ack()
