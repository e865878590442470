"""Runs of the lab for whoever asks over HTTP.

They are done by a process of their own, one at a time, at low priority, each within `RUN_S_MAX`: whoever plays in the
lab of an orchestrator takes nothing from its jobs. The process ends when nobody has asked for a while. Equal settings
are equal runs, so the last ones are kept.
"""

from __future__ import annotations

import asyncio
import sys
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from planrun.sim.lab.history import History
from planrun.sim.lab.settings import Settings
from planrun.web.calls import Followers
from planrun.web.problems import LAB_BUSY, Refused
from planrun.web.replies import json_text

RUN_S_MAX = 15.0
IDLE_S_MAX = 60.0
WAITING_MAX = 8
KEPT_MAX = 64
REPLY_BYTES_MAX = 8 * 1024 * 1024
COMMAND = (sys.executable, "-m", "planrun.sim.lab")


class Runs:
    """The runs of one server."""

    def __init__(self, followers: Followers) -> None:
        """
        Args:
            followers: What ends with the server.
        """
        self._followers = followers
        self._kept: OrderedDict[str, History] = OrderedDict()
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._process: asyncio.subprocess.Process | None = None
        self._asked = asyncio.Event()

    async def history(self, settings: Settings) -> History:
        """What a run left behind.

        Raises:
            Refused: Too many ask at once, or this machine has no time for it.
        """
        told = json_text(settings)
        if told in self._kept:
            self._kept.move_to_end(told)
            return self._kept[told]
        if self._waiting >= WAITING_MAX:
            raise Refused(LAB_BUSY, "others play in this lab; ask again in a moment, or run planrun lab in a terminal")
        self._waiting += 1
        try:
            async with self._turn:
                if told not in self._kept:
                    self._kept[told] = await self._run(told)
        finally:
            self._waiting -= 1
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
        return self._kept[told]

    async def _run(self, told: str) -> History:
        async with self._ready() as process:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(f"{told}\n".encode())
            try:
                line = await asyncio.wait_for(process.stdout.readline(), RUN_S_MAX)
            except TimeoutError:
                raise Refused(LAB_BUSY, "this machine is too busy for the lab; ask again in a moment") from None
            if not line:
                raise RuntimeError(f"a run of the lab came to no end: {told}")
            return msgspec.json.decode(line, type=History)

    @asynccontextmanager
    async def _ready(self) -> AsyncIterator[asyncio.subprocess.Process]:
        """A process that waits for settings. One that is left in the middle of a run is ended."""
        self._asked.set()
        if self._process is None:
            pipe = asyncio.subprocess.PIPE
            self._process = await asyncio.create_subprocess_exec(
                *COMMAND, stdin=pipe, stdout=pipe, limit=REPLY_BYTES_MAX
            )
            self._followers.start(self._tend(self._process))
        try:
            yield self._process
        except BaseException:
            if self._process is not None:
                self._process.kill()
                self._process = None
            raise

    async def _tend(self, process: asyncio.subprocess.Process) -> None:
        """End it when nobody asks, and when the server ends."""
        try:
            while process.returncode is None:
                self._asked.clear()
                try:
                    async with asyncio.timeout(IDLE_S_MAX):
                        await self._asked.wait()
                except TimeoutError:
                    break
        finally:
            if self._process is process:
                self._process = None
            if process.returncode is None:
                process.kill()
            await process.wait()
