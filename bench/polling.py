"""Do people who look slow the work down? Claims per second on a full ledger, with and without pages that poll.

Each poller asks for a page, the next page and the counts, again and again with half a second between, as a page in a
browser does. With and without in turn, A B B A, so that a machine that gets slower or faster meanwhile tells nothing.

    python -m bench.polling [--pollers 20] [--ended 1000000]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.claim import WORKER, block
from bench.listing import fill
from planrun.client import AsyncClient
from planrun.wiring import open_ledger

ORDER = "ABBA"
EVERY_S = 0.5


async def poll(url: str, pollers: int) -> None:
    """Look for ever, once it was said that all have begun."""
    async with contextlib.AsyncExitStack() as clients:
        looking = [await clients.enter_async_context(AsyncClient(url)) for _ in range(pollers)]
        print("looking", flush=True)
        await asyncio.gather(*(_look(client) for client in looking))


async def _look(client: AsyncClient) -> None:
    while True:
        page = await client.list(state="finished")
        await client.list(kind="kind-1", before=page.before)
        await client.counts()
        await asyncio.sleep(EVERY_S)


@contextlib.contextmanager
def polled(url: str, pollers: int) -> Iterator[None]:
    """So many pollers, in a process of their own."""
    command = [sys.executable, "-m", "bench.polling", "--poll", url, "--pollers", str(pollers)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1])
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield
    finally:
        process.kill()
        process.communicate()


async def measure(folder: Path, *, pollers: int, ended: int, jobs: int = 60, rounds: int = 2) -> float:
    """How many times longer a claim takes while they look: the ratio of the medians."""
    url = f"sqlite:///{folder}/polled.db"
    ledger = open_ledger(url)
    await ledger.register(WORKER)
    fill(folder / "polled.db", ended=ended, waiting=10_000)
    rates: dict[str, list[float]] = {"A": [], "B": []}
    await block(ledger, jobs)
    for name in ORDER * rounds:
        with polled(url, pollers) if name == "B" else contextlib.nullcontext():
            rates[name].append(await block(ledger, jobs))
    await ledger.close()
    return statistics.median(rates["A"]) / statistics.median(rates["B"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pollers", type=int, default=20, help="how many look at once")
    parser.add_argument("--ended", type=int, default=1_000_000, help="jobs that have ended")
    parser.add_argument("--poll", metavar="URL", help="only look, for ever")
    asked = parser.parse_args()
    if asked.poll:
        asyncio.run(poll(asked.poll, asked.pollers))
    with tempfile.TemporaryDirectory() as folder:
        ratio = asyncio.run(measure(Path(folder), pollers=asked.pollers, ended=asked.ended))
    print(f"a claim takes {ratio:.2f} times as long while {asked.pollers} pollers look")
    return 0


if __name__ == "__main__":
    sys.exit(main())
