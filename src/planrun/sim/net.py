"""The network of a simulated world: each word from one party to another may be late, lost, doubled, or cut off."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from planrun.core.errors import PlanrunError
from planrun.orchestrator.webhook import NotAccepted
from planrun.sim.actor import Actor
from planrun.sim.loop import SimLoop, in_words

RESEND_S = 0.2  # so soon a word is sent again that did not get through; the next time it takes twice as long


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
    cuts: Pairs of parties (machines, by name) that do not reach each other now, and for how many reasons.
    """

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self.cuts: Counter[frozenset[str]] = Counter()
        self.fate_of: Callable[[str, str, str], Fate] = lambda who, whom, what: Fate()

    def is_cut(self, who: str, whom: str) -> bool:
        return bool(self.cuts) and self.cuts[frozenset((who, whom))] > 0

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
        call = _Call(self, self._loop, who, whom, host, do, self.fate_of(who, whom, what))
        call.send()
        try:
            async with asyncio.timeout(patience_s):
                return await call.answer
        except TimeoutError:
            raise NoReply(f"no reply of {whom} within {patience_s:g} s") from None


class _Call:
    """One call on its way there and back."""

    def __init__(
        self,
        net: Net,
        loop: SimLoop,
        who: str,
        whom: str,
        host: Callable[[], Actor | None],
        do: Callable[[], Awaitable[Any]],
        fate: Fate,
    ) -> None:
        self._net, self._loop = net, loop
        self._who, self._whom = who, whom
        self._host, self._do = host, do
        self._fate = fate
        self._caller = loop.current
        self.answer: asyncio.Future[Any] = loop.create_future()

    def send(self) -> None:
        fate, world = self._fate, self._loop.world
        if not fate.lost_there:
            world.later(fate.there_s, self._arrive)
        if fate.doubled_s:
            world.later(fate.there_s + fate.doubled_s, self._arrive)

    def _arrive(self) -> None:
        if self._net.is_cut(self._who, self._whom):
            return
        actor = self._host()
        if actor is None:
            self._caller.soon(self._settle, None, NoWay(f"{self._whom} is not there"))
        else:
            actor.spawn(self._serve())

    async def _serve(self) -> None:
        actor = self._loop.current
        actor.at_crash.append(self._reset)
        try:
            value, error = await self._do(), None
        except Exception as raised:
            value, error = None, raised
            if not isinstance(raised, PlanrunError | NotAccepted):
                self._loop.mishaps.append(f"{actor.name}, asked by {self._who}: {in_words(raised)}")
        actor.at_crash.remove(self._reset)
        if not self._fate.lost_back:
            self._loop.world.later(self._fate.back_s, self._give_back, value, error)

    def _reset(self) -> None:
        """The process at the other end has died: the system says so."""
        error = NoReply(f"{self._whom} has ended the connection")
        self._loop.world.later(self._fate.back_s, self._give_back, None, error)

    def _give_back(self, value: Any, error: Exception | None) -> None:
        if not self._net.is_cut(self._who, self._whom):
            self._caller.soon(self._settle, value, error)

    def _settle(self, value: Any, error: Exception | None) -> None:
        if self.answer.done():
            return
        if error is None:
            self.answer.set_result(value)
        else:
            self.answer.set_exception(error)


class Way:
    """One direction of a connection: words arrive in the order in which they were said.

    Where the two do not reach each other the words wait. What is under way when the connection ends is lost.

    Attributes:
        is_open: The connection has not ended.
    """

    def __init__(
        self,
        net: Net,
        loop: SimLoop,
        who: str,
        whom: str,
        host: Callable[[], Actor | None],
        trip_s: Callable[[], float],
    ) -> None:
        """
        Args:
            who, whom, host: As in `Net.ask`.
            trip_s: How long the next word takes, at least.
        """
        self.is_open = True
        self._net, self._loop = net, loop
        self._who, self._whom, self._host = who, whom, host
        self._trip_s = trip_s
        self._words: deque[Callable[[], None]] = deque()
        self._last_s = 0.0
        self._resend_s = RESEND_S

    def say(self, act: Callable[..., None], *args: Any) -> None:
        """Let the other end do something when this arrives there."""
        self._last_s = max(self._last_s, self._loop.now_s + self._trip_s())
        self._words.append(partial(act, *args))
        self._loop.world.later(self._last_s - self._loop.now_s, self._arrive)

    def lag(self, by_s: float) -> None:
        """What is said from now on waits so long, in its order."""
        self._last_s = self._loop.now_s + by_s

    def end(self) -> None:
        self.is_open = False
        self._words.clear()

    def _arrive(self) -> None:
        actor = self._host()
        if not self.is_open or actor is None:
            return
        if self._net.is_cut(self._who, self._whom):
            self._loop.world.later(self._resend_s, self._arrive)
            self._resend_s *= 2
        else:
            self._resend_s = RESEND_S
            actor.soon(self._words.popleft())
