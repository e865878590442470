"""A count that is read anew now and then: the longer it takes, the more rarely."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from planrun.clock import Clock

T = TypeVar("T")

SHARE_OF_TIME = 50  # reading takes no more of the time than one part in so many


class Counted(Generic[T]):
    """The last answer to one question."""

    def __init__(self, ask: Callable[[], Awaitable[T]], clock: Clock, first: T) -> None:
        self._ask = ask
        self._clock = clock
        self._last = first
        self._again_ms = 0

    async def look(self, now_ms: int) -> T:
        """The answer, asked for anew where that is due."""
        if now_ms >= self._again_ms:
            began_ms = self._clock.boot_ms()
            self._last = await self._ask()
            self._again_ms = now_ms + SHARE_OF_TIME * (self._clock.boot_ms() - began_ms)
        return self._last
