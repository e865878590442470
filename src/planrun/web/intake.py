"""The rest of a body that nobody wants is read all the same, up to a limit.

A server that answers and closes while the caller still sends resets the connection, and the caller sees that instead
of the answer.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope

DRAINED_BYTES_MAX = 64 * 1024 * 1024


class Intake:
    """The body of one request, on its way in."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        headers = Headers(scope=scope)
        self._receive = receive
        self._ended = "content-length" not in headers and "transfer-encoding" not in headers

    async def receive(self) -> Message:
        """As ASGI's."""
        message = await self._receive()
        if message["type"] != "http.request" or not message.get("more_body", False):
            self._ended = True
        return message

    async def drain(self) -> None:
        """Read what is left and throw it away."""
        left = DRAINED_BYTES_MAX
        while not self._ended and left > 0:
            left -= len((await self.receive()).get("body", b""))
