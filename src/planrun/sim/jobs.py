"""Job processes of a simulated machine: what job code does is told beforehand, and takes virtual time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from planrun.core.kinds import MIB, Kind
from planrun.core.life import Outcome
from planrun.core.messages import Granted
from planrun.worker.happenings import (
    CheckpointReady,
    Done,
    Exited,
    Failed,
    Happening,
    Nudge,
    Progress,
    Stopped,
)
from planrun.worker.pool import Process

KILL_S = 0.05
STOP_S = 1.0  # from the word to stop to a checkpoint

PLAIN = Kind(kind="render", version="v1", module="sim", output_bytes_max=MIB, max_runtime_s=120)
RESUMABLE = Kind(kind="encode", version="v1", module="sim", resumable="fmt-1", output_bytes_max=MIB, max_runtime_s=120)
KINDS = (PLAIN, RESUMABLE)


def kinds_of(versions: Sequence[str], stall_s: float) -> tuple[Kind, ...]:
    """Both kinds, in each of these versions."""
    return tuple(replace(kind, version=version, stall_s=stall_s) for version in versions for kind in KINDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """What the job code does in one attempt.

    Attributes:
        runs_s: How long it works.
        end: How that ends: a result, one of the three errors, or `stalled`: it hangs for ever.
        dies: Its process is killed by somebody instead.
        checkpoint_every_s: It leaves something to go on from so often; 0: never.
        progress_every_s: It says how far it is so often; 0: never.
    """

    runs_s: float = 5.0
    end: Outcome = Outcome.SUCCESS
    dies: bool = False
    checkpoint_every_s: float = 0
    progress_every_s: float = 0


class SimProcess:
    """One job process. Implements `planrun.worker.pool.Process`."""

    def __init__(self, deed_of: Callable[[int, int], Deed], bytes_of: Callable[[int, int], bytes]) -> None:
        """
        Args:
            deed_of, bytes_of: What job number n does in an attempt, and what it leaves in its file.
        """
        self._deed_of = deed_of
        self._bytes_of = bytes_of
        self._happenings: asyncio.Queue[Happening] = asyncio.Queue()
        self._answers: dict[int, asyncio.Future[None]] = {}
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._exited: Exited | None = None
        self._seq = 0

    @property
    def has_ended(self) -> bool:
        return self._exited is not None

    @property
    def runs(self) -> bool:
        """Does job code run in it?"""
        return self._task is not None and self._exited is None

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
    ) -> None:
        number = int(params["n"])
        done_s = 0.0
        if checkpoint is not None:
            done_s = float(json.loads((checkpoint / "state").read_text()))
        self._task = asyncio.create_task(self._carry(kind, number, attempt, scratch, done_s))

    async def next(self) -> Happening:
        if self._exited is not None and self._happenings.empty():
            return self._exited
        return await self._happenings.get()

    def nudge(self) -> None:
        self._happenings.put_nowait(Nudge())

    def ask_stop(self) -> None:
        self._stop.set()

    def answer_checkpoint(self, seq: int, *, taken: bool, why: str = "") -> None:
        answer = self._answers.pop(seq, None)
        if answer is not None and not answer.done():
            answer.set_result(None)

    async def kill(self) -> Exited:
        if self._exited is None:
            await asyncio.sleep(KILL_S)
        if self._exited is None:
            if self._task is not None:
                self._task.cancel()
            self._end(Exited(killed=True, signal=9))
        assert self._exited is not None
        return self._exited

    async def clear(self) -> None:
        pass

    def _end(self, exited: Exited) -> None:
        if self._exited is None:
            self._exited = exited
            self._happenings.put_nowait(exited)

    async def _carry(self, kind: Kind, number: int, attempt: int, scratch: Path, done_s: float) -> None:
        deed = self._deed_of(number, attempt)
        if not await self._work(kind, deed, scratch, done_s):
            self._happenings.put_nowait(Stopped())
            return
        if deed.dies:
            self._end(Exited(signal=9))
        elif deed.end is Outcome.SUCCESS:
            file = scratch / "film.mp4"
            file.write_bytes(self._bytes_of(number, attempt))
            self._happenings.put_nowait(Done({"film": file}, {"n": number}))
            self._end(Exited(code=0))
        elif deed.end in (Outcome.PERMANENT, Outcome.TRANSIENT, Outcome.FATAL):
            self._happenings.put_nowait(Failed(deed.end, f"{deed.end} as told", "told"))
        else:
            await asyncio.Event().wait()  # it hangs

    async def _work(self, kind: Kind, deed: Deed, scratch: Path, done_s: float) -> bool:
        """Pass the time. False: it was asked to stop, and has left something to go on from."""
        checkpoint_s = done_s + deed.checkpoint_every_s
        while done_s < deed.runs_s:
            step_s = min(
                [deed.runs_s - done_s, *(each for each in (deed.progress_every_s, deed.checkpoint_every_s) if each)]
            )
            try:
                async with asyncio.timeout(step_s):
                    await self._stop.wait()
            except TimeoutError:
                pass
            else:
                await asyncio.sleep(STOP_S)
                await self._leave(scratch, done_s)
                return False
            done_s += step_s
            if deed.progress_every_s:
                self._happenings.put_nowait(Progress(done_s / deed.runs_s, f"{done_s:g} s"))
            if kind.resumable and deed.checkpoint_every_s and done_s >= checkpoint_s:
                checkpoint_s = done_s + deed.checkpoint_every_s
                await self._leave(scratch, done_s)
        return True

    async def _leave(self, scratch: Path, done_s: float) -> None:
        folder = scratch / "checkpoint"
        folder.mkdir(exist_ok=True)
        (folder / "state").write_text(json.dumps(done_s))
        self._seq += 1
        answer = self._answers[self._seq] = asyncio.get_running_loop().create_future()
        self._happenings.put_nowait(CheckpointReady(self._seq))
        await answer


class SimPool:
    """Implements `planrun.worker.pool.Pool`: each attempt gets a fresh process, after a moment."""

    def __init__(
        self,
        start_s: Callable[[], float],
        deed_of: Callable[[int, int], Deed],
        bytes_of: Callable[[int, int], bytes],
        began: Callable[[str, SimProcess], None],
    ) -> None:
        """
        Args:
            began: Told of each process, with the job that it is for.
        """
        self._began = began
        self._start_s = start_s
        self._deed_of = deed_of
        self._bytes_of = bytes_of

    async def take(self, granted: Granted, kind: Kind) -> SimProcess:
        await asyncio.sleep(self._start_s())
        process = SimProcess(self._deed_of, self._bytes_of)
        self._began(granted.lease.job_id, process)
        return process

    def prepare(self, *, after_s: float = 0) -> None:
        pass

    def give_back(self, process: Process) -> None:
        pass

    async def end(self, process: Process) -> None:
        await process.kill()

    async def close(self) -> None:
        pass
