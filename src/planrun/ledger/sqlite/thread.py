"""The hands of a ledger in production: a thread or a loop that writes, lock files for turns, inotify for bells."""

from __future__ import annotations

import asyncio
import queue
import threading

from planrun.ledger.hands import Hands, Queue
from planrun.ledger.sqlite.turnstile import Turnstile
from planrun.ledger.sqlite.wakeup import Wakeup


class WriterThread:
    """Drains the queue of one writer for as long as the process lives, or until the writer is closed."""

    def __init__(self, writer: Queue) -> None:
        self._writer = writer
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()  # no interrupt can leave it locked
        self._pause = threading.Event()
        self._thread = threading.Thread(target=self._run, name="planrun-ledger-writer", daemon=True)
        self._thread.start()

    def ring(self) -> None:
        self._bell.put(None)

    def close(self, timeout_s: float) -> bool:
        self._bell.put(None)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            while not self._writer.is_waiting():
                if self._writer.has_ended():
                    return
                self._bell.get()
            if pause_s := self._writer.drain():
                self._pause.wait(pause_s)


class LoopFirst(WriterThread):
    """Drains it on the event loop that rings, if that has nothing to do that cannot wait for a commit."""

    def __init__(self, writer: Queue) -> None:
        self._is_planned = False
        super().__init__(writer)

    def ring(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            super().ring()
            return
        if not self._is_planned:  # what else comes in this round of the loop shares the commit
            self._is_planned = True
            loop.call_soon(self._drain)

    def _drain(self) -> None:
        self._is_planned = False
        self._writer.drain_here()
        if self._writer.is_waiting():
            super().ring()


THREADED = Hands(WriterThread, Turnstile, Wakeup)
ON_LOOP = Hands(LoopFirst, Turnstile, Wakeup)
