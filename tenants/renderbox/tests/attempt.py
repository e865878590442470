"""One attempt at a job, without a worker: what the tests see of its progress, checkpoints and end."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from planrun.jobs import JobContext, Progress, Stopped
from renderbox.jobs import preview


@dataclass
class Attempt:
    """Runs `preview` in a folder of its own.

    Attributes:
        reports: Every progress report, in order.
        checkpoints: Folders that the job handed over, oldest first.
        stop_when: Asked at each look at `stopping`, with this attempt; True: the worker asks to stop.
    """

    folder: Path
    upload: Path
    params: dict[str, Any] = field(default_factory=dict)
    checkpoint: Path | None = None
    stop_when: Callable[[Attempt], bool] = lambda attempt: False
    reports: list[tuple[float, str]] = field(default_factory=list)
    checkpoints: list[Path] = field(default_factory=list)
    stopping: bool = False

    @property
    def scratch(self) -> Path:
        return self.folder / "scratch"

    def run(self) -> Path:
        """Returns the preview; raises what the job raises."""
        self.scratch.mkdir(parents=True)
        answer = preview(
            JobContext(
                inputs=MappingProxyType({"upload": self.upload}),
                params=self.params,
                scratch=self.scratch,
                progress=Progress(lambda *report: self.reports.append(report), self._take_checkpoint),
                checkpoint=self.checkpoint,
                attempt=1,
                idempotency_hint="one",
                _is_stopping=self._is_stopping,
            )
        )
        assert list(answer) == ["preview"]
        return answer["preview"]

    def _is_stopping(self) -> bool:
        self.stopping = self.stopping or self.stop_when(self)
        return self.stopping

    def _take_checkpoint(self) -> bool:
        taken = self.folder / f"checkpoint-{len(self.checkpoints)}"
        shutil.move(self.scratch / "checkpoint", taken)
        self.checkpoints.append(taken)
        if self.stopping:
            raise Stopped
        return True
