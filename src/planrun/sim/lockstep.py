"""The threads of a simulated world: real ones, of which exactly one runs at any time."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from planrun.sim.actor import Actor, Crash

if TYPE_CHECKING:
    from planrun.sim.loop import SimLoop


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
        thread.job = lambda: context.run(answer, future, func, args)
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
