"""Job processes as an attempt sees them. The real ones are made by `processes`; the simulator has its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from planrun.core.kinds import Kind
from planrun.core.messages import Granted
from planrun.worker.happenings import Exited, Happening


class Process(Protocol):
    """One job process, with whatever it starts. See `process.JobProcess`."""

    @property
    def has_ended(self) -> bool: ...

    def run(
        self,
        kind: Kind,
        *,
        params: Mapping[str, Any],
        inputs: Mapping[str, Path],
        scratch: Path,
        checkpoint: Path | None,
        attempt: int,
        hint: str,
        log: Path,
    ) -> None: ...

    async def next(self) -> Happening: ...

    def nudge(self) -> None: ...

    def ask_stop(self) -> None: ...

    def answer_checkpoint(self, seq: int, *, taken: bool, why: str = "") -> None: ...

    async def kill(self) -> Exited: ...

    async def clear(self) -> None: ...


class Pool(Protocol):
    """The job processes of one worker. See `processes.Processes`."""

    async def take(self, granted: Granted, kind: Kind) -> Process: ...

    def prepare(self, *, after_s: float = 0) -> None: ...

    def give_back(self, process: Process) -> None: ...

    async def end(self, process: Process) -> None: ...

    async def close(self) -> None: ...
