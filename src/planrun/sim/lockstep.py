"""The threads of a simulated world: greenlets, of which one runs at a time; they change when they are told to."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from greenlet import getcurrent, greenlet

from planrun.sim.actor import Actor, Crash

if TYPE_CHECKING:
    from planrun.sim.loop import SimLoop


class _Thread:
    """One thread of the lockstep.

    Attributes:
        actor: Whose work it does.
        is_doomed: When it runs again, it unwinds.
    """

    def __init__(self, actor: Actor, job: Callable[[], None]) -> None:
        self.actor = actor
        self.is_doomed = False
        self._job = job
        self._stack = greenlet(self._run)

    def go(self) -> None:
        """Run until it waits or has ended."""
        self._stack.parent = getcurrent()
        self._stack.switch()

    def wait(self) -> None:
        """Called by itself: let the others run until somebody says `go`."""
        self._stack.parent.switch()

    def _run(self) -> None:
        with suppress(Crash):
            self._job()


class Lockstep:
    """The threads of a world: whoever switches to one stands still until it waits or has ended."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self._running: _Thread | None = None
        self._waiting: list[_Thread] = []

    def begin(self, future: asyncio.Future[Any], func: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """Run a function in a thread, and put what becomes of it into the future."""
        context = contextvars.copy_context()
        self._switch(_Thread(self._loop.current, lambda: context.run(answer, future, func, args)))

    def pause(self, actor: Actor, seconds: float) -> None:
        """See `SimLoop.pause`."""
        thread = self._running
        if thread is None:
            return
        actor.later(seconds, self._switch, thread)
        self._waiting.append(thread)
        thread.wait()
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
        current, self._loop.current = self._loop.current, thread.actor
        running = asyncio._get_running_loop()
        asyncio._set_running_loop(None)  # as in a real thread
        thread.go()
        asyncio._set_running_loop(running)
        self._running, self._loop.current = before, current


def answer(future: asyncio.Future[Any], func: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Call a function, and put what becomes of it into the future."""
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
