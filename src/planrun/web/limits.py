"""What one caller may take: so many connections in all, and so long for what it sends.

Headers: `HEADERS_BYTES_MAX` and `HEADERS_S`. Body: see `planrun.web.intake`; what comes of one after the answer has
`HEADERS_S`, too. Whoever is too slow is answered 408 where there is a request to answer; a connection on which none
comes is just closed.
"""

from __future__ import annotations

import asyncio
import resource

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from planrun.ledger.wire import PROTOCOL, PROTOCOL_HEADER

HEADERS_BYTES_MAX = 32 * 1024
HEADERS_S = 10.0
CONNECTIONS_MAX = 4096
FILES_KEPT = 256  # of those that the process may have open: for ledger, store and broker
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\n"
    + f"{PROTOCOL_HEADER}: {PROTOCOL}\r\n".encode()
    + b"connection: close\r\n\r\n"
    b'{"type":"too-many-connections","title":"Too many connections are open","status":503,'
    b'"detail":"this server has as many connections as it takes; ask again in a moment","job_id":null}\n'
)


def room_for(connections: int) -> int:
    """How many of them this process can have open, beside what it needs itself."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return connections if files == resource.RLIM_INFINITY else min(connections, max(files - FILES_KEPT, files // 2))


class Connection(H11Protocol):
    """One connection, within these limits."""

    connections_max = CONNECTIONS_MAX
    headers_s = HEADERS_S
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > room_for(self.connections_max):
            transport.write(_FULL)
            transport.close()
        else:
            self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self.transport.is_closing():
            super().data_received(data)
            self._look()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look()

    def _look(self) -> None:
        """Is a part of a request there that is to become whole, or the rest of one that is answered?"""
        state = self.conn.their_state
        if state is not h11.IDLE and not (state is h11.SEND_BODY and self.cycle.response_complete):
            self._expect_nothing()
        elif self._late is None and (state is h11.SEND_BODY or self.conn.trailing_data[0]):
            self._expect_headers()

    def _expect_headers(self) -> None:
        self._late = self.loop.call_later(self.headers_s, self.transport.close)

    def _expect_nothing(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
