"""The event loop of a simulated world: virtual time, and chance instead of a scheduler.

Each *actor* (a process on some machine) has its own queue of ready callbacks, which run in the order in which they
were made ready, as asyncio promises; which actor runs next, the seed picks. Time stands still while anybody has
something to run, then jumps to the next timer. Every callback carries its context, and so knows its actor; what runs
needs no change to be frozen (its callbacks wait), crashed (they are dropped for ever) or slowed down.

What the code hands to a thread runs in a real thread, but in lockstep: exactly one runs at any time, and it may wait
in virtual time in its middle (`pause`), where it can be frozen or crashed like everything else.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import heapq
import itertools
import random
import sys
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, ClassVar

_ACTOR: contextvars.ContextVar[Actor] = contextvars.ContextVar("planrun_sim_actor")

STEPS_MAX = 2_000_000  # of one history: more is a loop that never waits


READERS = "planrun-ledger-reader"
TASKS_KEPT_MAX = 256


class Crash(BaseException):
    """Unwinds what a crashed actor was just doing. No handler of the code catches it; its ports are dead by then."""


class Stuck(Exception):
    """The world did not come to rest. The text says who was busy."""


class Hardware:
    """The clocks of one machine; all processes on it go by them.

    Attributes:
        rate: How fast they run beside true time.
        slept_s: How long it was suspended: boottime counts that, the monotonic clock does not.
        wall_step_ms: By how much its wall clock is wrong.
        boots: How often it was booted.
    """

    def __init__(self, loop: SimLoop, name: str, *, rate: float = 1.0) -> None:
        self.name = name
        self.rate = rate
        self.slept_s = 0.0
        self.wall_step_ms = 0
        self.boots = 1
        self.stands = False
        self._loop = loop
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
    def wall_ms(self) -> int:
        """Milliseconds since the history began, as its wall clock has them, but for steps of that clock."""
        return int((self.mono_s + self.slept_s + self._before_s) * 1000)

    def true_s(self, mono_s: float) -> float:
        """When the monotonic clock will read that, in true time."""
        return self._at_s + (mono_s - self._mono_s) / self.rate

    def stop(self) -> None:
        """The clocks stand still, as in a suspended machine; timers wait."""
        self._mono_s, self.stands = self.mono_s, True

    def go_on(self, *, slept_s: float = 0) -> None:
        """They go on from where they stood.

        Args:
            slept_s: By how much boottime has moved on meanwhile.
        """
        self._mono_s, self._at_s, self.stands = self.mono_s, self._loop.now_s, False
        self.slept_s += slept_s

    def boot(self) -> None:
        """It starts anew: another epoch, and clocks that begin from a small number."""
        self.boots += 1
        self._before_s += self.mono_s + self.slept_s - 10.0
        self._mono_s, self._at_s, self.stands, self.slept_s = 10.0, self._loop.now_s, False, 0.0


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
        self.context.run(_ACTOR.set, self)

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


class SimLoop(asyncio.BaseEventLoop):
    """Attributes:
    now_s: True time, seconds since the history began.
    steps: How many callbacks have run.
    current: Who runs right now.
    mishaps: Exceptions that nobody took: faults of the code under test.
    """

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance
        self.now_s = 0.0
        self.steps = 0
        self.actors: list[Actor] = []
        self.mishaps: list[str] = []
        self._graves: list[Actor] = []
        self._numbers = itertools.count()
        self._threads = Lockstep(self)
        self.world = self.add("world", Hardware(self, "world"))
        self.current = self.world

    def add(self, name: str, hardware: Hardware) -> Actor:
        """One more actor."""
        actor = Actor(self, name, hardware)
        self.actors.append(actor)
        return actor

    # --- running ---

    def run_until(self, is_done: Callable[[], bool]) -> bool:
        """Run until then. False: nothing is left that could ever happen.

        Raises:
            Stuck: Too many steps.
        """
        asyncio._set_running_loop(self)
        try:
            while not is_done():
                if not self._step():
                    return False
            return True
        finally:
            self.current = self.world
            asyncio._set_running_loop(None)

    def _step(self) -> bool:
        able = [actor for actor in self.actors if actor.ready and not actor.is_frozen and not actor.hardware.stands]
        if not able:
            return self._advance()
        actor = able[0] if len(able) == 1 else able[int(self._chance.random() * len(able))]
        handle = actor.ready.popleft()
        if handle.cancelled():
            return True
        self.steps += 1
        if self.steps > STEPS_MAX:
            raise Stuck(f"{self.steps} steps: {actor.name} is busy with {handle!r}")
        self.current = actor
        handle._run()
        return True

    def _advance(self) -> bool:
        """Let time go on to the next timers, and make their callbacks ready."""
        at = [(next_s, actor) for actor in self.actors if (next_s := actor.next_s()) is not None]
        if not at:
            return False
        self.now_s = max(self.now_s, min(next_s for next_s, _ in at))
        for next_s, actor in at:
            if next_s <= self.now_s:
                due_s = actor.mono_s + 1e-9
                while actor.timers and actor.timers[0][0] <= due_s:
                    actor.ready.append(heapq.heappop(actor.timers)[2])
        return True

    # --- faults ---

    def crash(self, actor: Actor) -> None:
        """From now on nothing of it has any effect. Repeating it is no error."""
        if actor.is_dead:
            return
        actor.is_dead = True
        actor.ready.clear()
        actor.timers.clear()
        self.actors.remove(actor)
        self._graves.append(actor)
        self._threads.unwind(actor)
        for let_go in actor.at_crash:
            let_go()

    def pause(self, seconds: float) -> None:
        """Wait in virtual time inside of what runs in a thread; elsewhere there is no waiting.

        Raises:
            Crash: Its actor has crashed meanwhile.
        """
        self._threads.pause(self.current, seconds)

    def in_thread(self, act: Callable[[], None]) -> None:
        """Do something for the current actor where it may `pause`."""
        self._threads.begin(self.create_future(), act, ())

    # --- what asyncio asks of a loop ---

    def time(self) -> float:
        return self.current.mono_s

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:  # type: ignore[override]
        if context is None:
            context = contextvars.copy_context()
        handle = asyncio.Handle(callback, args, self, context)
        actor = context.get(_ACTOR, self.world)
        if not actor.is_dead:
            actor.ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.current.mono_s + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:  # type: ignore[override]
        if context is None:
            context = contextvars.copy_context()
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        actor = context.get(_ACTOR, self.world)
        if not actor.is_dead:
            heapq.heappush(actor.timers, (when, next(self._numbers), timer))
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass  # it is dropped when it would have come due

    def create_task(self, coro: Any, *, name: object = None, context: Any = None) -> asyncio.Task[Any]:
        if context is None:
            context = contextvars.copy_context()
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name="task", context=context)
        # Kept: a task that nobody names any more would be thrown away, and its `finally` run, at any time.
        tasks = context.get(_ACTOR, self.world).tasks
        if len(tasks) > TASKS_KEPT_MAX:
            tasks[:] = [each for each in tasks if not each.done()]
        tasks.append(task)
        return task

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        future = self.create_future()
        # What only reads the ledger never waits: to change threads would take longer.
        is_quick = getattr(executor, "_thread_name_prefix", "").startswith(READERS)
        self.call_soon(_answer if is_quick else self._threads.begin, future, func, args)
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not self.current.is_dead and not isinstance(error, Crash):
            self.mishaps.append(f"{self.current.name}: {context.get('message')}: {error!r}")

    def end(self) -> None:
        """Throw away what is left, without a trace of it on the terminal."""
        heard, sys.unraisablehook = sys.unraisablehook, lambda unraisable: None
        try:
            self._throw_away()
            gc.collect()
        finally:
            sys.unraisablehook = heard

    def _throw_away(self) -> None:
        for actor in [*self.actors, *self._graves]:
            actor.is_dead = True
            self._threads.unwind(actor)
        for actor in [*self.actors, *self._graves]:
            for task in actor.tasks:
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                _throw_away(task.get_coro())
            actor.ready.clear()
            actor.timers.clear()
            actor.at_crash.clear()
            actor.tasks.clear()
        self.mishaps = []
        self.close()


def _throw_away(coroutine: Any) -> None:
    try:
        coroutine.close()
    except BaseException:  # its `finally` meets ports that are gone
        return


class _Thread:
    """One thread of the lockstep.

    Attributes:
        actor: Whose work it does.
        go, back: Let go of to let it run, and by it when it waits or has ended.
        is_doomed: When it runs again, it unwinds.
    """

    def __init__(self) -> None:
        self.go, self.back = threading.Lock(), threading.Lock()
        self.go.acquire()
        self.back.acquire()
        self.actor: Actor
        self.job: Callable[[], None] | None = None
        self.is_doomed = False
        threading.Thread(target=self._run, name="planrun-sim", daemon=True).start()

    def _run(self) -> None:
        while True:
            self.go.acquire()
            if self.job is not None:
                with suppress(Crash):
                    self.job()
            self.job = None
            self.back.release()


class Lockstep:
    """The threads of a world: whoever switches to one stands still until it waits or has ended."""

    _spare: ClassVar[list[_Thread]] = []

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self._running: _Thread | None = None
        self._waiting: list[_Thread] = []

    def begin(self, future: asyncio.Future[Any], func: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """Run a function in a thread, and put what becomes of it into the future."""
        thread = self._spare.pop() if self._spare else _Thread()
        thread.actor = self._loop.current
        thread.is_doomed = False
        context = contextvars.copy_context()
        thread.job = lambda: context.run(_answer, future, func, args)
        self._switch(thread)

    def pause(self, actor: Actor, seconds: float) -> None:
        """See `SimLoop.pause`."""
        thread = self._running
        if thread is None:
            return
        actor.later(seconds, self._switch, thread)
        self._waiting.append(thread)
        thread.back.release()
        thread.go.acquire()
        self._waiting.remove(thread)
        if thread.is_doomed:
            raise Crash

    def unwind(self, actor: Actor) -> None:
        """What an actor had under way has ended with it."""
        for thread in [thread for thread in self._waiting if thread.actor is actor]:
            thread.is_doomed = True
            self._switch(thread)

    def _switch(self, thread: _Thread) -> None:
        before, self._running = self._running, thread
        current = self._loop.current
        self._loop.current = thread.actor
        thread.go.release()
        thread.back.acquire()
        self._running, self._loop.current = before, current
        if thread.job is None:
            self._spare.append(thread)


def _answer(future: asyncio.Future[Any], func: Callable[..., Any], args: tuple[Any, ...]) -> None:
    try:
        result = func(*args)
    except Crash:
        raise
    except BaseException as error:
        if not future.done():
            future.set_exception(error)
    else:
        if not future.done():
            future.set_result(result)
