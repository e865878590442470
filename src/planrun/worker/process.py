"""One job process as the worker sees it: what it is told, what it says, and its certain end.

A launcher (the guardian, `launcher`) and the job's runner (`planrun.jobs.runner`), each on a socket of its
own. Nothing here waits for job code: it may hang, flood or die, and `kill` still returns.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from planrun.config import VALUE_BYTES_MAX
from planrun.core.kinds import Kind
from planrun.core.limits import Vitals
from planrun.worker.happenings import WAITING_MAX, Exited, Happening, Nudge, RunnerLine
from planrun.worker.isolation import MESSAGE_BYTES_MAX, Level, attend, open_control, start_tree
from planrun.worker.tree import end_marked

T = TypeVar("T")

TAIL_LINES = 20
START_LOG_BYTES_MAX = 64 * 1024
_TAIL_BYTES = 16 * 1024
_KILL_TIMEOUT_S = 1.0  # a cancel promises a dead tree within 2 s, also below a launcher that stands still
_CLEAR_TIMEOUT_S = 5.0  # a job has ended well and nobody waits: time for many processes on a busy machine


class JobProcess:
    """One launcher and one runner. Everything is called from one event loop."""

    def __init__(self, log: Path, mark: str, import_path: Sequence[Path], control: socket.socket) -> None:
        self._log = log
        self._mark = mark
        self._import_path = [str(folder) for folder in import_path]
        self._control = control
        self._launcher: subprocess.Popen[bytes]
        self._runner: RunnerLine
        self._happenings: asyncio.Queue[Happening] = asyncio.Queue()
        self._exited: asyncio.Future[Exited] = asyncio.get_running_loop().create_future()
        self._cleared: asyncio.Future[None] | None = None
        self._is_running = False  # what a waiting process uses is no sign of life of a job
        self._last: Exited | None = None
        self._listening: asyncio.Task[None]

    @classmethod
    async def start(
        cls,
        *,
        level: Level,
        folder: Path,
        mark: str,
        lock_fd: int | None,
        environment: Mapping[str, str],
        import_path: Sequence[Path],
    ) -> JobProcess:
        """Start a process that waits for `run`. It knows nothing of any job yet.

        Args:
            folder: The process's own; made here. Why it cannot be started is in `start.log` there.
            mark: Marks the tree's processes, see `tree.mark_of`.
            lock_fd: The worker's lock file, kept open until the tree is dead.
            environment: All that job code sees, see `environment.job_environment`.
            import_path: Folders in front of the job's import path.

        Raises:
            OSError: Folders or processes cannot be made.
        """
        for path in (folder / "tmp", folder / "home"):
            path.mkdir(parents=True, exist_ok=True)
        log = folder / "start.log"
        control, launcher_control = open_control()
        job, runner_job = socket.socketpair()
        with contextlib.ExitStack() as undo:  # a launcher that loses its worker's end ends its tree, and itself
            undo.enter_context(control)
            undo.enter_context(job)
            process = cls(log, mark, import_path, control)
            command = [sys.executable, "-I", "-m", "planrun.jobs.runner", str(runner_job.fileno())]
            settled = {**environment, "TMPDIR": str(folder / "tmp"), "HOME": str(folder / "home")}
            with launcher_control, runner_job, log.open("ab") as errors:
                process._launcher = start_tree(
                    level,
                    command,
                    control=launcher_control,
                    job=runner_job,
                    lock_fd=lock_fd,
                    mark=mark,
                    environment=settled,
                    errors=errors.fileno(),
                )
            control.setblocking(False)
            process._attend(folder, log_bytes_max=START_LOG_BYTES_MAX, memory_bytes_max=0)
            line = lambda: RunnerLine(process._happenings)  # noqa: E731
            _, process._runner = await asyncio.get_running_loop().create_unix_connection(line, sock=job)
            undo.pop_all()
        process._listening = asyncio.create_task(process._hear_launcher())
        return process

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
        """Let it run one job. A warm process may be told again after `Done` and `clear`.

        Args:
            scratch: `<folder>/scratch` of the attempt, with `tmp` and `home` beside it.
            log: Where this attempt's lines go. A job runs without a log where there can be none.
        """
        folder = scratch.parent
        order = {
            "say": "run",
            "module": kind.module,
            "kind": kind.kind,
            "version": kind.version,
            "warm": kind.warm,
            "params": params,
            "inputs": {name: str(path) for name, path in inputs.items()},
            "scratch": str(scratch),
            "tmp": str(folder / "tmp"),
            "home": str(folder / "home"),
            "checkpoint": str(checkpoint) if checkpoint else None,
            "attempt": attempt,
            "hint": hint,
            "path": self._import_path,
            "value_bytes_max": VALUE_BYTES_MAX,
        }
        self._log = log
        self._is_running = True
        self._attend(folder, log_bytes_max=kind.log_bytes_max, memory_bytes_max=kind.memory_bytes_max)
        self._runner.tell(order)

    async def next(self) -> Happening:
        """What happens next, in order; `Exited` is the last, and is given again when asked again."""
        if self._last is None:
            happening = await self._happenings.get()
            self._runner.make_room()
            if not isinstance(happening, Exited):
                return happening
            self._last = happening
        return self._last

    def nudge(self) -> None:
        """Let whoever waits for `next` look at something else, too."""
        self._happenings.put_nowait(Nudge())

    def ask_stop(self) -> None:
        """Ask the job to leave a checkpoint and stop. It need not obey."""
        self._runner.tell({"say": "stop"})

    def answer_checkpoint(self, seq: int, *, taken: bool, why: str = "") -> None:
        """Let the job go on after `CheckpointReady`.

        Args:
            why: If it was not taken; goes to the job's log.
        """
        say = "checkpoint-taken" if taken else "checkpoint-refused"
        self._runner.tell({"say": say, "seq": seq, **({} if taken else {"why": why})})

    async def kill(self) -> Exited:
        """Kill the whole tree. Returns once every process of it is dead, and again if it was dead already."""
        self._tell_launcher({"say": "kill"})
        return await self._obeyed(self._exited, _KILL_TIMEOUT_S)

    async def clear(self) -> None:
        """Kill every process of the tree but the runner; returns once they are dead, or all is: see `has_ended`."""
        self._is_running = False
        if not self._exited.done():
            self._cleared = asyncio.get_running_loop().create_future()
            self._tell_launcher({"say": "clear"})
            await self._obeyed(self._cleared, _CLEAR_TIMEOUT_S)

    @property
    def has_ended(self) -> bool:
        """Is the whole tree dead?"""
        return self._exited.done()

    async def _obeyed(self, done: asyncio.Future[T], within_s: float) -> T:
        """What the launcher was told is done; or it is frozen, say, and dies: the mark still leads to its tree."""
        try:
            return await asyncio.wait_for(asyncio.shield(done), within_s)
        except TimeoutError:
            self._launcher.kill()
            return await asyncio.shield(done)

    def _attend(self, folder: Path, *, log_bytes_max: int, memory_bytes_max: int) -> None:
        self._tell_launcher(
            attend(log=self._log, log_bytes_max=log_bytes_max, folder=folder, memory_bytes_max=memory_bytes_max)
        )

    def _tell_launcher(self, order: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # it has gone; its end is on the way
            self._control.send(json.dumps(order).encode())

    async def _hear_launcher(self) -> None:
        said: asyncio.Future[Exited | None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().add_reader(self._control, self._on_launcher, said)
        exited = await said
        if exited is None:  # the launcher itself was killed: what it may have left is found by its mark
            await asyncio.to_thread(end_marked, self._mark)
            exited = Exited(tail=tail_of(self._log))
        await asyncio.to_thread(self._launcher.wait)
        self._control.close()
        self._exited.set_result(exited)
        self._on_cleared()
        # What the runner said before its end comes first.
        await self._runner.hear_out()
        self._happenings.put_nowait(exited)

    def _on_launcher(self, exited: asyncio.Future[Exited | None]) -> None:
        """One message of the launcher. Its last one, or its end without a word (None), goes into `exited`."""
        try:
            said = self._control.recv(MESSAGE_BYTES_MAX)
        except BlockingIOError:
            return
        except OSError:
            said = b""
        message = json.loads(said) if said else {"say": "gone"}
        match message.pop("say"):
            case "vitals" if self._is_running and self._happenings.qsize() < WAITING_MAX:
                self._happenings.put_nowait(Vitals(**message))
            case "cleared":
                self._on_cleared()
            case "exit" | "gone" as last:
                asyncio.get_running_loop().remove_reader(self._control)
                exited.set_result(Exited(**message, tail=tail_of(self._log)) if last == "exit" else None)

    def _on_cleared(self) -> None:
        if self._cleared is not None and not self._cleared.done():
            self._cleared.set_result(None)


def tail_of(log: Path) -> str:
    """The last 20 lines of a log, empty if there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-TAIL_LINES:])
