"""The event loop of a simulated world: virtual time, and chance instead of a scheduler.

Each *actor* (a process on some machine) has its own queue of ready callbacks, which run in the order in which they
were made ready, as asyncio promises; which actor runs next, the seed picks. Time stands still while anybody has
something to run, then jumps to the next timer. Every callback carries its context, and so knows its actor; what runs
needs no change to be frozen (its callbacks wait), crashed (they are dropped for ever) or slowed down.

What the code hands to a thread runs in a greenlet: it may wait in virtual time in its middle (`pause`), where it can be
frozen or crashed like everything else.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import heapq
import itertools
import random
import sys
import traceback
from collections.abc import Callable
from typing import Any

from planrun.core.errors import PlanrunError
from planrun.sim.actor import ACTOR, Actor, Crash, Hardware
from planrun.sim.lockstep import Lockstep

STEPS_MAX = 2_000_000  # of one history: more is a loop that never waits
TASKS_KEPT_MAX = 256


class Stuck(Exception):
    """The world did not come to rest. The text says who was busy."""


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

    def _run_once(self) -> None:
        """For whoever runs it as any other loop, as pytest does."""
        if not self._step():
            raise Stuck("everybody waits, and for nothing that could ever happen")

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
        self._look_at(actor.tasks)
        actor.is_dead = True
        actor.ready.clear()
        actor.timers.clear()
        self.actors.remove(actor)
        self._graves.append(actor)
        self._threads.unwind(actor)
        for task in actor.tasks:
            asyncio._unregister_task(task)  # nobody shall wait for it to end
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
        actor = context.get(ACTOR, self.world)
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
        actor = context.get(ACTOR, self.world)
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
        tasks = context.get(ACTOR, self.world).tasks
        if len(tasks) > TASKS_KEPT_MAX:
            self._look_at(tasks)
            tasks[:] = [each for each in tasks if not each.done()]
        tasks.append(task)
        return task

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        future = self.create_future()
        self.call_soon(self._threads.begin, future, func, args)
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not self.current.is_dead and not isinstance(error, Crash):
            self.mishaps.append(f"{self.current.name}: {context.get('message')}: {in_words(error)}")

    def look_at_tasks(self) -> None:
        """A fault that ended a task is a mishap, if nobody has asked for it yet."""
        for actor in self.actors:
            self._look_at(actor.tasks)

    def _look_at(self, tasks: list[asyncio.Task[Any]]) -> None:
        for task in tasks:
            if not task.done() or task.cancelled() or not task._log_traceback:
                continue
            error = task.exception()
            if not isinstance(error, Crash | PlanrunError):  # those last are waited for, by a `gather` for one
                self.mishaps.append(f"nobody took what a task raised: {in_words(error)}")

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


def in_words(error: BaseException | None) -> str:
    """An exception with where it comes from."""
    return f"{error!r}\n{''.join(traceback.format_exception(error))}"


def _throw_away(coroutine: Any) -> None:
    try:
        coroutine.close()
    except BaseException:  # its `finally` meets ports that are gone
        return
