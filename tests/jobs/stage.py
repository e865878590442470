"""Starting job processes for tests."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from planrun.core.kinds import Kind
from planrun.worker.environment import job_environment
from planrun.worker.happenings import Exited, Happening
from planrun.worker.isolation import Level
from planrun.worker.process import JobProcess
from planrun.worker.tree import mark_of

LAB = Path(__file__).parent


class Stage:
    """One job process in a private folder, and everything that happened to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "attempt.log"
        self.process: JobProcess
        self.kind: Kind
        self.seen: list[Happening] = []

    async def start(
        self, kind: str, *, level: Level = Level.SUBREAPER, lock_fd: int | None = None, **limits: Any
    ) -> None:
        self.kind = Kind(kind=kind, version="v1", module=limits.pop("module", "lab_jobs"), **limits)
        self.process = await JobProcess.start(
            level=level,
            folder=self.folder / "process",
            mark=mark_of("stage", id(self)),
            lock_fd=lock_fd,
            environment=job_environment(os.environ),
            import_path=[LAB],
        )

    def run(self, *, checkpoint: Path | None = None, inputs: dict[str, Path] | None = None, **params: Any) -> None:
        self.run_in(self.folder / "attempt" / "scratch", self.log, checkpoint=checkpoint, inputs=inputs, **params)

    def run_in(
        self,
        scratch: Path,
        log: Path,
        *,
        checkpoint: Path | None = None,
        inputs: dict[str, Path] | None = None,
        **params: Any,
    ) -> None:
        for own in ("scratch", "tmp", "home"):
            (scratch.parent / own).mkdir(parents=True, exist_ok=True)
        self.process.run(
            self.kind,
            params=params,
            inputs=inputs or {},
            scratch=scratch,
            checkpoint=checkpoint,
            attempt=1,
            hint="hint",
            log=log,
        )

    async def until(self, kind: type, *, timeout_s: float = 20) -> Any:
        """The next happening of this type."""
        async with asyncio.timeout(timeout_s):
            while True:
                happening = await self.process.next()
                self.seen.append(happening)
                if isinstance(happening, kind):
                    return happening
                assert not isinstance(happening, Exited), f"ended before {kind.__name__}: {self.seen}"

    async def to_end(self, *, timeout_s: float = 20) -> list[Any]:
        """What happened up to the end, measurements and progress left out."""
        await self.until(Exited, timeout_s=timeout_s)
        return [happening for happening in self.seen if type(happening).__name__ not in ("Vitals", "Progress")]


def living(tag: str) -> list[int]:
    """The processes that have this tag in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if tag.encode() in (path / "cmdline").read_bytes():
                found.append(int(path.name))
        except OSError:
            continue
    return found
