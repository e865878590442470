"""The hands of a ledger in production: a thread that writes, lock files for the turn, inotify for the bells."""

from __future__ import annotations

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


THREADED = Hands(WriterThread, Turnstile, Wakeup)
