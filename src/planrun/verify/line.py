"""A TCP line that can be cut: what is on its way stays there, and whoever waits hears nothing, until it is healed."""

from __future__ import annotations

import asyncio
from contextlib import suppress

CHUNK = 65536


class Line:
    """Leads from a free port of this machine to an address. Belongs to one event loop."""

    def __init__(self, host: str, port: int) -> None:
        self._to = (host, port)
        self._whole = asyncio.Event()
        self._whole.set()
        self._server: asyncio.Server | None = None
        self._calls: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> int:
        """Open it. Returns the port."""
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def cut(self) -> None:
        self._whole.clear()

    def heal(self) -> None:
        """What was on its way arrives late."""
        self._whole.set()

    async def __aexit__(self, *error: object) -> None:
        if self._server is not None:
            self._server.close()
        for call in self._calls:
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)

    async def _carry(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        call = asyncio.current_task()
        assert call is not None
        self._calls.add(call)
        writers = [back]
        try:
            await self._whole.wait()
            far, forth = await asyncio.open_connection(*self._to)
            writers.append(forth)
            await asyncio.gather(self._pump(near, forth), self._pump(far, back))
        except (OSError, asyncio.CancelledError):
            pass  # one end hung up: so does this one
        finally:
            self._calls.discard(call)
            for writer in writers:
                writer.close()

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(CHUNK):
            await self._whole.wait()
            target.write(data)
            await target.drain()
        with suppress(OSError):
            target.write_eof()
