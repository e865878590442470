"""Who runs in a simulated world: machines with their clocks, and the processes on them."""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planrun.sim.loop import SimLoop

ACTOR: contextvars.ContextVar[Actor] = contextvars.ContextVar("planrun_sim_actor")


class Crash(BaseException):
    """Unwinds what a crashed actor was just doing. No handler of the code catches it; its ports are dead by then."""


class Hardware:
    """The clocks of one machine; all processes on it go by them.

    Attributes:
        rate: How fast they run beside true time.
        slept_s: How long it was suspended, up to the last time it woke.
        wall_step_ms: By how much its wall clock is wrong.
        boots: How often it was booted.
    """

    def __init__(self, loop: SimLoop, name: str, *, rate: float = 1.0) -> None:
        self.name = name
        self.rate = rate
        self.wall_step_ms = 0
        self.boots = 1
        self.stands = False
        self._loop = loop
        self.slept_s = 0.0
        self._asleep_since_s: float | None = None
        self._before_s = -1000.0  # from boottime to the wall clock
        self._mono_s, self._at_s = 1000.0, loop.now_s  # what the monotonic clock read, and at which true time

    @property
    def epoch(self) -> str:
        return f"{self.name}-boot-{self.boots}"

    @property
    def mono_s(self) -> float:
        """The monotonic clock."""
        if self.stands:
            return self._mono_s
        return self._mono_s + (self._loop.now_s - self._at_s) * self.rate

    @property
    def boot_s(self) -> float:
        """Boottime: it runs on while the machine is suspended."""
        asleep_s = 0.0 if self._asleep_since_s is None else self._loop.now_s - self._asleep_since_s
        return self.mono_s + self.slept_s + asleep_s

    @property
    def wall_ms(self) -> int:
        """Milliseconds since the history began, as its wall clock has them, but for steps of that clock."""
        return int((self.boot_s + self._before_s) * 1000)

    def true_s(self, mono_s: float) -> float:
        """When the monotonic clock will read that, in true time."""
        return self._at_s + (mono_s - self._mono_s) / self.rate

    def stop(self, *, sleeps: bool) -> None:
        """Timers wait, and the monotonic clock stands still.

        Args:
            sleeps: The machine is suspended: its boottime runs on. Else that stands still, too.
        """
        self._asleep_since_s = self._loop.now_s if sleeps else None
        self._mono_s, self.stands = self.mono_s, True

    def go_on(self) -> None:
        """The clocks go on from where they stood."""
        self.slept_s = self.boot_s - self.mono_s
        self._asleep_since_s = None
        self._mono_s, self._at_s, self.stands = self.mono_s, self._loop.now_s, False

    def boot(self) -> None:
        """It starts anew: another epoch, and clocks that begin from a small number."""
        self.boots += 1
        self._before_s += self.boot_s - 10.0
        self.slept_s, self._asleep_since_s = 0.0, None
        self._mono_s, self._at_s, self.stands = 10.0, self._loop.now_s, False


class Actor:
    """One process on a machine.

    Attributes:
        is_frozen: Its callbacks wait.
        is_dead: It has crashed; whatever is left of it has no effect.
        at_crash: Called once when it crashes: what the system of a real machine would let go of.
    """

    def __init__(self, loop: SimLoop, name: str, hardware: Hardware) -> None:
        self.name = name
        self.hardware = hardware
        self.is_frozen = self.is_dead = False
        self.at_crash: list[Callable[[], None]] = []
        self.ready: deque[asyncio.Handle] = deque()
        self.timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self._loop = loop
        self.context = contextvars.copy_context()
        self.context.run(ACTOR.set, self)

    def __repr__(self) -> str:
        return self.name

    @property
    def mono_s(self) -> float:
        """The monotonic clock, as it sees it."""
        return self.hardware.mono_s

    def next_s(self) -> float | None:
        """True time of its next timer; None: it has none, or it waits for somebody to wake it."""
        timers = self.timers
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
        if not timers or self.is_frozen or self.hardware.stands:
            return None
        return self.hardware.true_s(timers[0][0])

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a task of this actor, from anywhere."""
        return self.context.run(self._loop.create_task, coroutine)

    def soon(self, callback: Callable[..., Any], *args: Any) -> None:
        """Let this actor call something."""
        self._loop.call_soon(callback, *args, context=self.context)

    def later(self, delay_s: float, callback: Callable[..., Any], *args: Any) -> asyncio.TimerHandle:
        """Let this actor call something after so long, by its own clock."""
        return self._loop.call_at(self.mono_s + delay_s, callback, *args, context=self.context)
