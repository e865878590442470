"""A cut line carries nothing, and what was on its way arrives late."""

from __future__ import annotations

import asyncio

import pytest

from planrun.verify.line import Line

pytestmark = pytest.mark.anyio


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(100):
        writer.write(data)
    writer.close()


async def test_nothing_passes_a_cut_line_and_after_it_was_healed_all_does() -> None:
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    line = Line("127.0.0.1", server.sockets[0].getsockname()[1])
    async with line as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"one")
        assert await reader.readexactly(3) == b"one"

        line.cut()
        writer.write(b"two")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.readexactly(1), 0.2)
        late, other = await asyncio.open_connection("127.0.0.1", port)
        other.write(b"new")
        line.heal()

        assert await reader.readexactly(3) == b"two"
        assert await late.readexactly(3) == b"new"
        for end in (writer, other):
            end.close()
    server.close()


async def test_a_line_to_nobody_hangs_up() -> None:
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    async with Line("127.0.0.1", port) as near:
        reader, writer = await asyncio.open_connection("127.0.0.1", near)

        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()
