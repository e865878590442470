"""Job processes: a fresh one per attempt, or a warm one that is reused where the kind opted in."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from planrun.core.kinds import Kind
from planrun.core.messages import Granted
from planrun.worker.isolation import Level
from planrun.worker.process import JobProcess

WARM = ".warm"  # below the scratch root: the folders of warm processes, by incarnation

Use = tuple[str, str, str]


class Processes:
    """All job processes of one worker.

    A warm process belongs to one (namespace, kind, version). It is ended after anything but a success, so a
    broken one is never reused.
    """

    def __init__(
        self,
        *,
        level: Level,
        lock_fd: int,
        environment: Mapping[str, str],
        import_path: Sequence[Path],
        warm_root: Path,
        warm_max: int,
    ) -> None:
        self._level = level
        self._lock_fd = lock_fd
        self._environment = environment
        self._import_path = import_path
        self._warm_root = warm_root
        self._warm_max = warm_max
        self._idle: dict[Use, list[JobProcess]] = {}
        self._uses: dict[JobProcess, Use] = {}
        self._started = 0

    async def take(self, granted: Granted, kind: Kind, *, folder: Path, log: Path) -> JobProcess:
        """A process that is ready to run one attempt."""
        use = (granted.namespace, granted.kind, granted.version)
        idle = self._idle.get(use)
        if kind.warm and idle:
            return idle.pop()
        if kind.warm:
            folder = self._warm_root / str(self._started)
            self._started += 1
        process = await JobProcess.start(
            level=self._level,
            kind=kind,
            folder=folder,
            log=log,
            token=granted.lease.token,
            lock_fd=self._lock_fd,
            environment=self._environment,
            import_path=self._import_path,
        )
        if kind.warm:
            self._uses[process] = use
        return process

    def give_back(self, process: JobProcess) -> None:
        """A warm process that did well, for the next attempt of its kind."""
        self._idle.setdefault(self._uses[process], []).append(process)

    async def end(self, process: JobProcess) -> None:
        """The attempt is over: everything but a warm process that was given back is dead when this returns."""
        use = self._uses.get(process)
        if use is not None and process in self._idle.get(use, ()):
            await self._evict()
            return
        self._uses.pop(process, None)
        await process.kill()

    async def close(self) -> None:
        """End the warm ones."""
        for processes in self._idle.values():
            for process in processes:
                await process.kill()
        self._idle.clear()
        self._uses.clear()
        shutil.rmtree(self._warm_root, ignore_errors=True)

    async def _evict(self) -> None:
        """Keep no more idle processes than there are slots: the kind that was used longest ago goes first."""
        while sum(len(processes) for processes in self._idle.values()) > self._warm_max:
            use = next(use for use, processes in self._idle.items() if processes)
            process = self._idle[use].pop(0)
            self._uses.pop(process, None)
            await process.kill()
