"""Job processes: a fresh one per attempt, or a warm one that is reused where the kind opted in.

Starting an interpreter takes longer than anything else between grant and job code. So one process that
knows nothing of any job yet waits as a spare; it is as fresh as one started for the attempt.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from planrun.core.kinds import Kind
from planrun.core.messages import Granted
from planrun.folders import remove_folder
from planrun.worker.isolation import Level
from planrun.worker.pool import Process
from planrun.worker.process import JobProcess
from planrun.worker.tree import end_marked, mark_of

log = logging.getLogger(__name__)

FOLDERS = ".processes"  # below the scratch root: the own folders of job processes, by incarnation
SPARE_AFTER_S = 0.2  # let the job that took the last one begin in peace

Use = tuple[str, str, str]


def clear_after(scratch: Path, incarnation: str) -> None:
    """A worker of this machine is proven dead: end what killed launchers of it have left, and remove its folders."""
    end_marked(mark_of(incarnation))
    _remove(scratch / FOLDERS / incarnation)


class Processes:
    """All job processes of one worker.

    A warm process belongs to one (namespace, kind, version). It is ended after anything but a success, so a
    broken one is never reused.
    """

    def __init__(
        self,
        *,
        level: Level,
        incarnation: str,
        lock_fd: int,
        environment: Mapping[str, str],
        import_path: Sequence[Path],
        scratch: Path,
        idle_max: int,
    ) -> None:
        """
        Args:
            scratch: Root of the attempts' folders; the processes' own ones lie below it, too.
            idle_max: How many warm processes may wait for a next job.
        """
        self._level = level
        self._incarnation = incarnation
        self._lock_fd = lock_fd
        self._environment = environment
        self._import_path = import_path
        self._root = scratch / FOLDERS / incarnation
        self._idle_max = idle_max
        self._idle: dict[Use, list[JobProcess]] = {}
        self._uses: dict[JobProcess, Use] = {}
        self._folders: dict[JobProcess, Path] = {}
        self._spare: asyncio.Task[JobProcess] | None = None
        self._started = 0

    async def take(self, granted: Granted, kind: Kind) -> JobProcess:
        """A process that is ready to run one attempt.

        Raises:
            OSError: None can be started.
        """
        use = (granted.namespace, granted.kind, granted.version)
        idle = self._idle.get(use)
        process = idle.pop() if kind.warm and idle else None
        if process is None or process.has_ended:
            process = await self._fresh()
        if kind.warm:
            self._uses[process] = use
        return process

    def prepare(self, *, after_s: float = 0) -> None:
        """Start a spare, unless one waits already."""
        if self._spare is None:
            self._spare = asyncio.create_task(self._start(after_s))

    def give_back(self, process: Process) -> None:
        """A warm process that did well, for the next attempt of its kind."""
        assert isinstance(process, JobProcess)
        self._idle.setdefault(self._uses[process], []).append(process)

    async def end(self, process: Process) -> None:
        """The attempt is over: everything but a warm process that was given back is dead when this returns."""
        assert isinstance(process, JobProcess)
        use = self._uses.get(process)
        if use is not None and process in self._idle.get(use, ()):
            await self._evict()
        else:
            await self._end(process)

    async def close(self) -> None:
        """End those that wait."""
        if self._spare is not None:
            self._spare.cancel()
            await asyncio.gather(self._spare, return_exceptions=True)
        for process in list(self._folders):
            await self._end(process)
        self._idle.clear()
        await asyncio.to_thread(_remove, self._root)

    async def _fresh(self) -> JobProcess:
        spare, self._spare = self._spare, None
        if spare is not None and spare.done() and not spare.cancelled() and spare.exception() is None:
            process = spare.result()
            self.prepare(after_s=SPARE_AFTER_S)
            if not process.has_ended:
                return process
            await self._end(process)
        elif spare is not None:
            self._spare = spare if not spare.done() else None
            self.prepare()
        return await self._start(0)

    async def _start(self, after_s: float) -> JobProcess:
        await asyncio.sleep(after_s)
        self._started += 1
        folder = self._root / str(self._started)
        process = await JobProcess.start(
            level=self._level,
            folder=folder,
            mark=mark_of(self._incarnation, self._started),
            lock_fd=self._lock_fd,
            environment=self._environment,
            import_path=self._import_path,
        )
        self._folders[process] = folder
        return process

    async def _end(self, process: JobProcess) -> None:
        await process.kill()
        self._uses.pop(process, None)
        folder = self._folders.pop(process, None)
        if folder is not None:
            await asyncio.to_thread(_remove, folder)

    async def _evict(self) -> None:
        """Keep no more idle processes than there are slots: the kind that was used longest ago goes first."""
        while sum(len(processes) for processes in self._idle.values()) > self._idle_max:
            use = next(use for use, processes in self._idle.items() if processes)
            await self._end(self._idle[use].pop(0))


def _remove(folder: Path) -> None:
    with suppress(OSError):  # it holds nothing that counts; `clear_after` tries once more
        remove_folder(folder)
