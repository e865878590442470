"""What a job gets: its inputs, its parameters, a folder and a progress reporter. Nothing else.

Source of the rules: docs/concepts/job-process.md.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from planrun.core.errors import Permanent

CHECKPOINT = "checkpoint"
MESSAGE_LENGTH_MAX = 500
REPORT_INTERVAL_S = 0.1


class Stopped(BaseException):
    """The job was asked to stop for a deploy and does so. Not an error: let it pass through.

    `progress.checkpoint()` raises it once the checkpoint is safe; a job that sees `stopping` may raise it too.
    """


class Progress:
    """Tells the worker how far the job is. Never breaks the job, never blocks it, cheap to call often."""

    def __init__(self, report: Callable[[float, str], None], checkpoint: Callable[[], bool]) -> None:
        self._report = report
        self._checkpoint = checkpoint
        self._complained = False

    def __call__(self, fraction: float, message: str = "") -> None:
        """Report progress.

        Args:
            fraction: 0.0 … 1.0. Values outside are clamped; what is not a number is ignored, with one line in the log.
            message: What is being done; cut at 500 characters.
        """
        try:
            share = float(fraction)
            if math.isnan(share):
                raise ValueError("not a number")
            text = str(message)[:MESSAGE_LENGTH_MAX].encode(errors="replace").decode()
        except Exception:
            self._complain("progress() was called with something that is not a number and a text; ignored")
            return
        if not 0.0 <= share <= 1.0:
            self._complain(f"progress({share:g}) is outside 0 … 1; clamped")
        self._report(min(max(share, 0.0), 1.0), text)

    def checkpoint(self) -> bool:
        """Hand over what lies in `scratch/checkpoint`; the next attempt gets it as `JobContext.checkpoint`.

        Blocks until the worker has stored a copy. The folder stays: add to it for the next checkpoint, which
        stores only what is new or changed. In async code: `await asyncio.to_thread(j.progress.checkpoint)`.

        Returns:
            True once the copy is safe; False if the worker could not take it. The log says why.

        Raises:
            Stopped: The job was asked to stop. Let it pass through.
            Permanent: There is no folder `scratch/checkpoint`.
        """
        return self._checkpoint()

    def _complain(self, line: str) -> None:
        if not self._complained:
            self._complained = True
            _tell(line)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """Attributes:
    inputs: Input name → local file. Read-only.
    params: As submitted.
    scratch: An empty folder of this attempt's own, and the current folder. Files to keep are left here.
    progress: Call it with a fraction and a message.
    checkpoint: The folder that an earlier attempt handed over, read-only; None: start from the beginning.
    attempt: Which try this is, from 1. Grows with every return to the queue, also after a deploy.
    idempotency_hint: Opaque; equal for all attempts of one job. For services that accept such a key.
    """

    inputs: Mapping[str, Path]
    params: dict[str, Any]
    scratch: Path
    progress: Progress
    checkpoint: Path | None
    attempt: int
    idempotency_hint: str
    _is_stopping: Callable[[], bool] = field(repr=False)

    @property
    def stopping(self) -> bool:
        """True once the job was asked to stop for a deploy: write a checkpoint soon, or raise `Stopped`."""
        return self._is_stopping()

    def log(self, text: object) -> None:
        """Write a line to the job's log. Printing does the same."""
        print(text, flush=True)


class Line:
    """The runner's end of one job's progress and checkpoints.

    A job's context holds only functions made here: the line to the worker stays in their closures.
    """

    def __init__(self, send: Callable[..., None], scratch: Path) -> None:
        self._send = send
        self._scratch = scratch
        self._latest: list[tuple[float, str]] = []
        self._waiting = threading.Event()
        self._sending = threading.Lock()
        self._closed = False
        self._stopping = threading.Event()
        self._answered = threading.Condition()
        self._answers: dict[int, str | None] = {}
        self._seq = 0
        self._starting = threading.RLock()  # a signal handler may report, too
        self._sender: threading.Thread | None = None  # started by the first report: many a short job makes none

    def context(
        self,
        *,
        inputs: Mapping[str, Path],
        params: dict[str, Any],
        checkpoint: Path | None,
        attempt: int,
        hint: str,
    ) -> JobContext:
        """What the job gets. Plain functions, not methods of this line, so that nothing on it leads here."""

        def report(fraction: float, message: str) -> None:
            self._report(fraction, message)

        def ask_checkpoint() -> bool:
            return self._ask_checkpoint()

        def is_stopping() -> bool:
            return self.stopping

        return JobContext(
            inputs=inputs,
            params=params,
            scratch=self._scratch,
            progress=Progress(report, ask_checkpoint),
            checkpoint=checkpoint,
            attempt=attempt,
            idempotency_hint=hint,
            _is_stopping=is_stopping,
        )

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    def stop(self) -> None:
        """The worker asks the job to stop."""
        self._stopping.set()

    def answer(self, seq: int, refusal: str | None) -> None:
        """The worker has taken a checkpoint, or says why not."""
        with self._answered:
            self._answers[seq] = refusal
            self._answered.notify_all()

    def close(self) -> None:
        """The job has ended: send its last report, ignore what its left-over threads still say."""
        self._flush()
        self._closed = True
        self._waiting.set()

    def _report(self, fraction: float, message: str) -> None:
        self._latest[:] = [(fraction, message)]
        if not self._waiting.is_set():
            self._waiting.set()
            self._keep_sent()

    def _keep_sent(self) -> None:
        with self._starting:
            if self._sender is None:
                sender = threading.Thread(target=self._keep_sending, name="planrun-progress", daemon=True)
                with suppress(RuntimeError):  # no thread to be had: the next report tries again
                    sender.start()
                    self._sender = sender

    def _flush(self) -> None:
        with self._sending:
            self._waiting.clear()
            if self._latest and not self._closed:
                fraction, message = self._latest.pop()
                self._send("progress", fraction=fraction, message=message)

    def _keep_sending(self) -> None:
        pause = threading.Event()  # never set: a sleep that job code cannot patch away
        while not self._closed:
            self._waiting.wait()
            self._flush()
            pause.wait(REPORT_INTERVAL_S)

    def _ask_checkpoint(self) -> bool:
        if not (self._scratch / CHECKPOINT).is_dir():
            raise Permanent(
                f"progress.checkpoint() found no folder {CHECKPOINT} in scratch; write the checkpoint there first",
                code="checkpoint-missing",
            )
        self._flush()
        with self._answered:
            self._seq += 1
            seq = self._seq
            self._send("checkpoint", seq=seq)
            self._answered.wait_for(lambda: seq in self._answers)
            refusal = self._answers.pop(seq)
        if refusal is not None:
            _tell(f"checkpoint {seq} was not taken: {refusal}")
        if self._stopping.is_set():
            raise Stopped
        return refusal is None


def _tell(line: str) -> None:
    with suppress(Exception):  # the job may have closed its output, and must not fail for that
        print(f"planrun: {line}", flush=True)
