"""Ask one peer for something, in the peer's own environment: `python -m bench.peers.ask PEER VERB …`.

A peer is a module of this folder with

    SETTINGS               what it is given beside its defaults, as it stands in the module, and why
    prepare()              make its database or queue; returns the commands that have to run beside the workers, if any
    connect()              a connection: submit(number), submit_many(numbers), submit_long(number, seconds), close();
                           answer(number), the result as the peer keeps it, and spent(number), what it has counted
                           against the job, where it does
    workers(count)         the commands that make up so many workers

Each of them but `workers` may be a coroutine function. A submit returns when the peer says that the job is stored.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import random
import sys
import time
from typing import Any

from bench.peers.note import ANSWERED, SENT, attempt_in, note

PER_CALL = 1000
WATCH_S = 0.5
GAP = 0.6, 1.4  # of the mean pause between two jobs: no worker's polling may fall into step


async def _answer(call: Any) -> Any:
    return await call if inspect.isawaitable(call) else call


async def submit(connection: Any, jobs: int) -> float:
    """One by one, each call awaited. Jobs per second."""
    began = time.perf_counter()
    for number in range(jobs):
        await _answer(connection.submit(number))
    return jobs / (time.perf_counter() - began)


async def bulk(connection: Any, jobs: int) -> float:
    """By the peer's own call for many, 1,000 in each. Jobs per second."""
    began = time.perf_counter()
    for first in range(0, jobs, PER_CALL):
        await _answer(connection.submit_many(list(range(first, min(first + PER_CALL, jobs)))))
    return jobs / (time.perf_counter() - began)


async def spaced(connection: Any, jobs: int, gap_s: float) -> None:
    """One now and then, each noted before the call."""
    chance = random.Random(7)
    for number in range(jobs):
        note(SENT, number)
        await _answer(connection.submit(number))
        time.sleep(gap_s * chance.uniform(*GAP))  # noqa: ASYNC251 - nothing else runs in this loop


async def watch(connection: Any, number: int) -> None:
    """Note whose result the peer shows, whenever that changes."""
    shown = None
    while True:
        words = await _answer(connection.answer(number))
        if words is not None and words != shown:
            note(ANSWERED, number, attempt_in(words))
        shown = words
        time.sleep(WATCH_S)  # noqa: ASYNC251 - nothing else runs in this loop


async def main(peer: str, verb: str, *words: str) -> object:
    module = importlib.import_module(f"bench.peers.{peer}")
    if verb == "prepare":
        return await _answer(module.prepare())
    if verb == "workers":
        return module.workers(int(words[0]))
    connection = await _answer(module.connect())
    try:
        match verb:
            case "submit":
                return await submit(connection, int(words[0]))
            case "bulk":
                return await bulk(connection, int(words[0])) if hasattr(connection, "submit_many") else None
            case "spaced":
                await spaced(connection, int(words[0]), float(words[1]))
            case "long":
                return await _answer(connection.submit_long(int(words[0]), float(words[1])))
            case "watch":
                await watch(connection, int(words[0])) if hasattr(connection, "answer") else None
            case "spent":
                return await _answer(connection.spent(int(words[0]))) if hasattr(connection, "spent") else None
            case _:
                raise SystemExit(f"{verb}: use prepare, workers, submit, bulk, spaced, long, watch or spent")
    finally:
        await _answer(connection.close())
    return None


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
