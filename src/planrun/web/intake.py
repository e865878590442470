"""A body must be there in time; and the rest of one that nobody wants is read all the same, up to a limit.

A server that answers and closes while the caller still sends resets the connection, and the caller sees that instead
of the answer.
"""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope

from planrun.web.problems import TOO_SLOW, Refused

BODY_S = 30.0  # for the whole body, from the headers on
DRAINED_BYTES_MAX = 64 * 1024 * 1024
DRAIN_S = 5.0


class Intake:
    """The body of one request, on its way in."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        headers = Headers(scope=scope)
        self._receive = receive
        self._until_s = asyncio.get_running_loop().time() + BODY_S
        self._ended = "content-length" not in headers and "transfer-encoding" not in headers

    async def receive(self) -> Message:
        """As ASGI's.

        Raises:
            Refused: The body has not arrived in time.
        """
        if self._ended:
            return await self._receive()  # nothing but the end of the connection is to come
        try:
            async with asyncio.timeout_at(self._until_s):
                message = await self._receive()
        except TimeoutError:
            self._ended = True
            late = f"the body has not arrived within {BODY_S:g} s; send it again, whole"
            raise Refused(TOO_SLOW, late, {"connection": "close"}) from None
        if message["type"] != "http.request" or not message.get("more_body", False):
            self._ended = True
        return message

    async def drain(self) -> None:
        """Read what is left and throw it away, for a moment."""
        left = DRAINED_BYTES_MAX
        self._until_s = min(self._until_s, asyncio.get_running_loop().time() + DRAIN_S)
        while not self._ended and left > 0:
            try:
                left -= len((await self.receive()).get("body", b""))
            except Refused:
                return
