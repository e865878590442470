"""What becomes of one call: claimed by one, answered once, waited for by a thread or a coroutine.

A `concurrent.futures.Future` has a lock and a condition, and wakes the event loop for each answer. Here a pop decides
who has the call, the writer or the caller who gives up, and the answers of one commit come to a loop together.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Answer(Generic[T]):
    """Given by whoever claimed it. `announce` then wakes who waits."""

    __slots__ = ("_bell", "_error", "_free", "_value", "_waiting", "done")

    def __init__(self) -> None:
        self.done = False
        self._free = [True]
        self._value: Any = None
        self._error: BaseException | None = None
        self._bell: threading.Event | None = None
        self._waiting: asyncio.Future[None] | None = None

    def claim(self) -> bool:
        """Have the call for oneself: to do it, or to make sure that it is not done. False: somebody has it."""
        try:
            return self._free.pop()
        except IndexError:
            return False

    def give(self, value: T) -> None:
        self._value, self.done = value, True

    def refuse(self, error: BaseException) -> None:
        self._error, self.done = error, True

    def result(self) -> T:
        """The answer, once it is there.

        Raises:
            BaseException: With which it was refused.
        """
        assert self.done, "nobody has answered yet"
        if self._error is not None:
            raise self._error
        value: T = self._value
        return value

    def wait(self, timeout_s: float) -> None:
        """Block until it is there, or so long."""
        if not self.done:
            self._bell = threading.Event()
            if not self.done:
                self._bell.wait(timeout_s)

    async def arrive(self, timeout_s: float) -> None:
        """As `wait`. Whoever is canceled meanwhile gives up: what has not begun is not done."""
        loop = asyncio.get_running_loop()
        waiting = self._waiting = loop.create_future()
        if self.done:
            return
        timer = loop.call_later(timeout_s, _arrived, [waiting])
        try:
            await waiting
        except asyncio.CancelledError:
            self.claim()
            raise
        finally:
            timer.cancel()


def announce(answers: Iterable[Answer[Any]]) -> None:
    """Wake everybody who waits for one of these. Repeating it is no error."""
    arrived: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for answer in answers:
        if answer._bell is not None:
            answer._bell.set()
        if answer._waiting is not None:
            arrived.setdefault(answer._waiting.get_loop(), []).append(answer._waiting)
    here = asyncio._get_running_loop()
    for loop, waiting in arrived.items():
        if loop is here:
            _arrived(waiting)
            continue
        with suppress(RuntimeError):  # it was closed: nobody waits there any more
            loop.call_soon_threadsafe(_arrived, waiting)


def _arrived(waiting: Iterable[asyncio.Future[None]]) -> None:
    for future in waiting:
        if not future.done():
            future.set_result(None)
