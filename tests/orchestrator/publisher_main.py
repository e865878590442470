"""A process that publishes one message, read from its input, and prints what became of it."""

from __future__ import annotations

import asyncio
import json
import sys

from planrun.config import place_of
from planrun.core.routes import Publish, check_route
from planrun.orchestrator.publisher import Publisher
from planrun.wiring import open_ledger, open_store


async def main(url: str) -> None:
    ledger = open_ledger(url)
    message = json.loads(sys.stdin.readline())
    route = check_route(message["route"])
    assert isinstance(route, Publish)
    said = await Publisher(ledger, open_store(url), place_of(url).public).publish(message["body"], route)
    print(said.what)
    await ledger.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
