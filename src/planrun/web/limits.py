"""What one caller may take: so many connections in all, and so long for what it sends.

Headers: `HEADERS_BYTES_MAX` and `HEADERS_S`. Body: see `planrun.web.intake`. Whoever is too
slow is answered 408 where there is a request to answer; a connection on which none comes is just closed.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADERS_BYTES_MAX = 32 * 1024
HEADERS_S = 10.0
CONNECTIONS_MAX = 4096
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\n"
    b"connection: close\r\n\r\n"
    b'{"type":"too-many-connections","title":"Too many connections are open","status":503,'
    b'"detail":"this server has as many connections as it takes; ask again in a moment","job_id":null}\n'
)


class Connection(HttpToolsProtocol):
    """One connection, within these limits."""

    connections_max = CONNECTIONS_MAX
    headers_s = HEADERS_S
    _late: asyncio.TimerHandle | None = None
    _is_head_open = True  # the headers of the next request are not complete
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.connections_max:
            transport.write(_FULL)
            transport.close()
        else:
            self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self._is_head_open:
            self._head_bytes += len(data)
            if self._head_bytes > HEADERS_BYTES_MAX and not self.transport.is_closing():
                self.send_400_response("The headers are too large.")
        self._look()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_head_open = True
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        """Those that came in one piece with their end are counted here; the parser answers an error with 400."""
        self._is_head_open = False
        if sum(len(name) + len(value) for name, value in self.headers) + len(self.url) > HEADERS_BYTES_MAX:
            raise ValueError("the headers are too large")
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look()

    def _look(self) -> None:
        """Is a request to come, or a part of one there, or the rest of one that is answered, and nothing else that
        ends the wait for it?"""
        answered = self.cycle is None or self.cycle.response_complete
        if not self._is_head_open and (not answered or self.timeout_keep_alive_task is not None):
            self._expect_nothing()
        elif self._late is None:
            self._expect_headers()

    def _expect_headers(self) -> None:
        self._late = self.loop.call_later(self.headers_s, self.transport.close)

    def _expect_nothing(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
