"""`planrun up`: a worker that comes back."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from types import FrameType

from planrun.cli.asking import TOKENS, Modules, Url, with_client
from planrun.cli.exits import Exit
from planrun.cli.worker import WorkerFlags
from planrun.client import AsyncClient
from planrun.config import place_of, url_from

PAUSE_S_MAX = 30.0
STEADY_S = 60.0  # a worker that has lived so long has started well: the next pause is short again
FINAL = {Exit.FINISHED, Exit.USAGE}  # starting again would change nothing


def up(*modules: Modules, flags: WorkerFlags = WorkerFlags(), url: Url = None) -> int:  # noqa: B008
    """Run a worker, and start it again when it breaks. Creates the ledger if there is none.

    SIGTERM and Ctrl-C go to the worker, which hands its jobs back; then this ends too.

    For example:

      planrun up media.jobs --slots 2
    """
    flags.options(modules)  # what cannot be right is said here, not by a child that is started again and again
    with_client(url, _touch, may_create=True)
    place = place_of(url_from(url))
    say(f"ledger {place.ledger}, results {place.store}, logs {place.logs}, scratch {flags.scratch or place.scratch}")
    return Keeper([sys.executable, "-m", "planrun.cli", "worker", *TOKENS.get()[1:]]).run()


class Keeper:
    """Keeps one command running until it ends for good or a signal says so."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._stopping = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        """Run the command to its final end. Returns its exit code, 128 + n for a signal n."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        pause_s = 1.0
        while True:
            started = time.monotonic()
            # A group of its own: Ctrl-C on the terminal reaches it once, through this process.
            self._child = subprocess.Popen(self._command, process_group=0)
            if self._stopping.is_set():
                self._child.terminate()
            code = self._child.wait()
            if code in FINAL or self._stopping.is_set():
                return code if code >= 0 else 128 - code
            if time.monotonic() - started >= STEADY_S:
                pause_s = 1.0
            how = f"exited with {code}" if code >= 0 else f"was killed by signal {-code}"
            say(f"the worker {how}; it starts again in {pause_s:g} s")
            if self._stopping.wait(pause_s):
                return Exit.FINISHED
            pause_s = min(pause_s * 2, PAUSE_S_MAX)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping.set()
        if self._child is not None and self._child.poll() is None:
            self._child.terminate()


def say(text: str) -> None:
    """One line for whoever watches."""
    print(f"planrun up: {text}", file=sys.stderr, flush=True)


async def _touch(client: AsyncClient) -> None:
    await client.counts()
