"""Calls that may never return, such as a look at a file on a mount whose server is away: beside the event loop.

Each has a thread of its own, that keeps nobody from ending; so many at once, and nobody waits for one for ever.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

from planrun.core.errors import LedgerUnavailable

T = TypeVar("T")

AT_ONCE_MAX = 4
WAIT_S = 10.0


class Aside:
    """Belongs to one event loop."""

    def __init__(self, *, wait_s: float = WAIT_S) -> None:
        self._wait_s = wait_s
        self._free = asyncio.Semaphore(AT_ONCE_MAX)

    async def call(self, look: Callable[[], T]) -> T:
        """What it returns or raises.

        Raises:
            LedgerUnavailable: It takes too long, or those before it do. A thread that hangs is not waited for, and its
                place is free when it is back.
        """
        try:
            async with asyncio.timeout(self._wait_s):
                await self._free.acquire()
                return await asyncio.wrap_future(self._start(look))
        except TimeoutError:
            raise LedgerUnavailable(
                f"the files named as inputs were not found out about within {self._wait_s:g} s, nothing was submitted: "
                "look at the disk or mount that they lie on, then ask again"
            ) from None

    def _start(self, look: Callable[[], T]) -> Future[T]:
        loop = asyncio.get_running_loop()
        found: Future[T] = Future()
        found.set_running_or_notify_cancel()  # who no longer waits for it has not ended it

        def run() -> None:
            try:
                found.set_result(look())
            except BaseException as error:
                found.set_exception(error)
            with suppress(RuntimeError):  # the loop is closed: nobody asks any more
                loop.call_soon_threadsafe(self._free.release)

        try:
            threading.Thread(target=run, name="planrun-files", daemon=True).start()
        except RuntimeError as error:  # this process may have no more of them
            self._free.release()
            found.set_exception(LedgerUnavailable(f"the files named as inputs cannot be looked at: {error}; ask again"))
        return found
