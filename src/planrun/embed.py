"""A worker inside a program."""

from __future__ import annotations

import asyncio
import concurrent.futures
import signal
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from planrun.clock import SystemClock
from planrun.config import place_of
from planrun.core.errors import Invalid
from planrun.service import Overseer
from planrun.wiring.worker import open_worker
from planrun.worker.options import WorkerOptions
from planrun.worker.supervisor import Supervisor

# A store that hangs keeps the threads of uploads, and of logs that nobody waits for any more, for minutes. There must
# be some left for what may not wait: heartbeats to an orchestrator look its name up in one, and so does each kill.
THREADS = 32
THREADS_A_SLOT = 16


class Worker:
    """A worker inside a program; `planrun worker` is the same.

        Worker("sqlite:///media.db", jobs=["media.jobs"], namespace="media", slots=2, lease_s=60).run()

    Job code is not imported here: it runs in processes of its own. The current folder can always be imported from.
    """

    def __init__(self, url: str, *, jobs: Sequence[str], namespace: str | Sequence[str] = "default", **options: object):
        """Args are those of `WorkerOptions`; `jobs` are import paths of modules with `@job` functions.

        Raises:
            Invalid: An address or option that cannot be right.
        """
        namespaces = (namespace,) if isinstance(namespace, str) else namespace
        try:
            given = {"modules": jobs, "namespaces": namespaces, **options}
            frozen = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
            told = WorkerOptions(**frozen)  # type: ignore[arg-type]
            self._options = replace(told, import_path=(*told.import_path, Path.cwd()))
        except TypeError as error:
            raise Invalid(f"no such option of a worker: {error}") from None
        self._url = url
        self._place = place_of(url)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._supervisor: Supervisor | None = None
        self._told_early = False

    def run(self, overseer: Overseer = Overseer()) -> int:  # noqa: B008 - frozen
        """Work until SIGTERM, SIGINT, SIGHUP or `stop`.

        Args:
            overseer: Whoever has started this process for the worker alone, and waits for a word of it.

        Returns:
            0 after a drain, 70 if a job said that this worker is broken: restart it then.
        """
        return asyncio.run(self._main(overseer))

    def stop(self) -> None:
        """Drain: hand back what runs, take nothing more. From any thread; called again: at once."""
        if self._loop is None:
            self._told_early = True
        else:
            with suppress(RuntimeError):  # it has ended already
                self._loop.call_soon_threadsafe(self._drain)

    async def _main(self, overseer: Overseer) -> int:
        self._loop = asyncio.get_running_loop()
        self._loop.set_default_executor(
            concurrent.futures.ThreadPoolExecutor(THREADS + THREADS_A_SLOT * self._options.slots)
        )
        if threading.current_thread() is threading.main_thread():
            told = [signal.SIGTERM, signal.SIGINT]
            if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # else `nohup` wants it ignored
                told.append(signal.SIGHUP)
            for number in told:
                self._loop.add_signal_handler(number, self._drain)
        async with open_worker(self._url, self._options) as self._supervisor:
            if self._told_early:
                self._supervisor.drain()
            async with overseer.watching(self._supervisor.returns, SystemClock.open_system()):
                return await self._supervisor.serve()

    def _drain(self) -> None:
        if self._supervisor is None:
            self._told_early = True  # it drains as soon as it is open
        else:
            self._supervisor.drain()
