"""What the handle on a ledger's file takes from its process and its machine, and the simulator gives instead.

A process has a thread that writes, a turnstile that it shares with the other processes of its box, and a bell that any
of them rings after a commit.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from planrun.core.errors import LedgerBusy


class Queue(Protocol):
    """The queue of a writer, as the one sees it who drains it."""

    def is_waiting(self) -> bool:
        """Is there something to write?"""
        ...

    def has_ended(self) -> bool:
        """Is the writer closed, with nothing left? Whoever queues a call after this look is refused at once."""
        ...

    def drain(self) -> float:
        """Write what waits, in one transaction, and answer. Blocks while others have their turn.

        Returns:
            So many seconds the file is better left alone; 0: it need not.
        """
        ...

    def drain_here(self) -> None:
        """As `drain`, on the caller's own thread; if anybody is in the way, all goes on waiting."""
        ...


class Hand(Protocol):
    """Who drains the queue of one writer."""

    def ring(self) -> None:
        """Something waits, or the writer was closed. From any thread."""
        ...

    def close(self, timeout_s: float) -> bool:
        """The writer was closed: wait until all is written. False: not in time; it goes on."""
        ...


class Turn(Protocol):
    """One process's place at the turnstile. See `sqlite.turnstile`."""

    def turn(
        self, *, wait_s: float | None = None, in_a_hurry: Callable[[], bool] = ...
    ) -> AbstractContextManager[bool]: ...

    def turn_if_free(self) -> AbstractContextManager[bool]: ...

    def pass_on(self) -> None: ...

    def busy(self, waited_s: float) -> LedgerBusy: ...

    def close(self) -> None: ...


class Bells(Protocol):
    """One process's view of what was committed. See `sqlite.wakeup`."""

    def touch(self, about: Iterable[str] | None) -> None: ...

    async def changed(self, *, timeout_s: float, about: str | None = None) -> None: ...

    def close(self) -> None: ...


class Bell:
    """One watched file: how often it was seen to be touched, and who has seen that.

    Attributes:
        touched_ns: When it was last touched, as far as somebody looks for that.
    """

    def __init__(self, touched_ns: int) -> None:
        self.touched_ns = touched_ns
        self._version = 0
        self._seen: weakref.WeakKeyDictionary[asyncio.Task[Any], int] = weakref.WeakKeyDictionary()
        self._next = asyncio.Event()

    def ring(self) -> None:
        self._version += 1
        self._next.set()
        self._next = asyncio.Event()

    async def wait(self, timeout_s: float) -> None:
        task = asyncio.current_task()
        assert task is not None
        if self._seen.get(task) == self._version:
            waiting = self._next
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await waiting.wait()
        self._seen[task] = self._version


class Hands(NamedTuple):
    """Attributes:
    hand: Who drains a writer.
    turn: The turnstile at a path.
    bells: The bells of a ledger: the file of every commit, and the folder of those of single jobs.
    """

    hand: Callable[[Queue], Hand]
    turn: Callable[[Path], Turn]
    bells: Callable[[Path, Path], Bells]
