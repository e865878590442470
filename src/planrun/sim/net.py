"""The network of a simulated world: each word from one party to another may be late, lost, doubled, or cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from planrun.sim.actor import Actor
from planrun.sim.loop import SimLoop


class NoWay(Exception):
    """Nobody has heard it: refused at once."""


class NoReply(Exception):
    """It may have been heard, or not."""


@dataclass(slots=True)
class Fate:
    """What becomes of one call.

    Attributes:
        there_s, back_s: How long the word and its answer take.
        lost_there, lost_back: Where it gets lost.
        doubled_s: So much later the same word arrives once more; 0: it does not.
    """

    there_s: float = 0.001
    back_s: float = 0.001
    lost_there: bool = False
    lost_back: bool = False
    doubled_s: float = 0


class Net:
    """Attributes:
    fate_of: What becomes of a call, by who asks whom what.
    cuts: Pairs of parties (machines, by name) that do not reach each other now.
    """

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self.cuts: set[frozenset[str]] = set()
        self.fate_of: Callable[[str, str, str], Fate] = lambda who, whom, what: Fate()

    def is_cut(self, who: str, whom: str) -> bool:
        return bool(self.cuts) and frozenset((who, whom)) in self.cuts

    async def ask(
        self,
        who: str,
        whom: str,
        what: str,
        host: Callable[[], Actor | None],
        do: Callable[[], Awaitable[Any]],
        *,
        patience_s: float,
    ) -> Any:
        """Ask another party to do something, and wait for its answer.

        Args:
            who, whom: Names of machines.
            what: For the trace, and for whoever decides about its fate.
            host: The process that is there when the word arrives; None: none.
            do: What it does; runs as a task of that process.
            patience_s: How long the answer is waited for.

        Raises:
            NoWay, NoReply: As they say.
            Exception: What the other one answered with.
        """
        caller = self._loop.current
        answer: asyncio.Future[Any] = self._loop.create_future()
        fate = self.fate_of(who, whom, what)

        def refuse() -> None:
            if not answer.done():
                answer.set_exception(NoWay(f"{whom} is not there"))

        def arrive() -> None:
            if self.is_cut(who, whom):
                return
            actor = host()
            if actor is None:
                caller.soon(refuse)
            else:
                actor.spawn(serve())

        def reset() -> None:
            """The process at the other end has died: the system says so."""
            self._loop.world.later(fate.back_s, give_back, None, NoReply(f"{whom} has ended the connection"))

        async def serve() -> None:
            actor = self._loop.current
            actor.at_crash.append(reset)
            try:
                value, error = await do(), None
            except Exception as raised:
                value, error = None, raised
            actor.at_crash.remove(reset)
            if not fate.lost_back:
                self._loop.world.later(fate.back_s, give_back, value, error)

        def give_back(value: Any, error: Exception | None) -> None:
            if not self.is_cut(who, whom):
                caller.soon(settle, value, error)

        def settle(value: Any, error: Exception | None) -> None:
            if answer.done():
                return
            if error is None:
                answer.set_result(value)
            else:
                answer.set_exception(error)

        if not fate.lost_there:
            self._loop.world.later(fate.there_s, arrive)
        if fate.doubled_s:
            self._loop.world.later(fate.there_s + fate.doubled_s, arrive)
        try:
            async with asyncio.timeout(patience_s):
                return await answer
        except TimeoutError:
            raise NoReply(f"no reply of {whom} within {patience_s:g} s") from None
