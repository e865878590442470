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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planrun.config import VALUE_BYTES_MAX
from planrun.core.kinds import Kind
from planrun.core.life import Outcome
from planrun.core.limits import Vitals
from planrun.core.spelling import is_name
from planrun.core.values import check_json
from planrun.worker.isolation import MESSAGE_BYTES_MAX, Level, attend, open_control, start_tree
from planrun.worker.tree import end_marked

LINE_BYTES_MAX = 4 * VALUE_BYTES_MAX + 1024 * 1024  # a value of escapes, and names and paths of outputs
TAIL_LINES = 20
START_LOG_BYTES_MAX = 64 * 1024
_TAIL_BYTES = 16 * 1024
_WAITING_HAPPENINGS_MAX = 64
_RUNNER_EOF_TIMEOUT_S = 1.0
_KILL_TIMEOUT_S = 1.0  # a cancel promises a dead tree within 2 s, also below a launcher that stands still
_SEQ_END = 2**63
_RAISED = {outcome.value: outcome for outcome in (Outcome.PERMANENT, Outcome.TRANSIENT, Outcome.FATAL)}


@dataclass(frozen=True, slots=True)
class Progress:
    """The job reports how far it is, 0.0 … 1.0."""

    fraction: float
    message: str


@dataclass(frozen=True, slots=True)
class CheckpointReady:
    """`scratch/checkpoint` is complete; the job waits until `answer_checkpoint`."""

    seq: int


@dataclass(frozen=True, slots=True)
class Done:
    """The job returned. Outputs are files inside its scratch; the value arrives as the job meant it."""

    outputs: dict[str, Path]
    value: Any


@dataclass(frozen=True, slots=True)
class Failed:
    """The job raised: permanent, transient or fatal, in one line."""

    outcome: Outcome
    message: str
    code: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """The job was asked to stop, and has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exited:
    """The whole tree is dead. The last event of a process.

    Attributes:
        code: Exit code of the main process; None if a signal ended it, or nobody saw it end.
        signal: The signal that ended it.
        oom: The kernel killed for lack of memory just then, and this was not our own kill.
        killed: The worker had it killed.
        tail: The last lines that it printed.
    """

    code: int | None = None
    signal: int | None = None
    oom: bool = False
    killed: bool = False
    cpu_ms: int = 0
    max_rss_bytes: int = 0
    tail: str = ""


@dataclass(frozen=True, slots=True)
class Nudge:
    """Nothing of the job's: `nudge` was called."""


Happening = Progress | CheckpointReady | Done | Failed | Stopped | Vitals | Exited | Nudge


class JobProcess:
    """One launcher and one runner. Everything is called from one event loop."""

    def __init__(self, log: Path, mark: str, import_path: Sequence[Path], control: socket.socket) -> None:
        self._log = log
        self._mark = mark
        self._import_path = [str(folder) for folder in import_path]
        self._control = control
        self._launcher: subprocess.Popen[bytes]
        self._runner: asyncio.StreamWriter
        self._happenings: asyncio.Queue[Happening] = asyncio.Queue()
        self._consumed = asyncio.Event()
        self._exited: asyncio.Future[Exited] = asyncio.get_running_loop().create_future()
        self._cleared: list[asyncio.Future[None]] = []
        self._unsent: list[dict[str, Any]] = []  # orders for the runner that wait for the launcher to attend
        self._has_run = False  # what a waiting process uses is no sign of life of a job
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
            folder: The process's own; made here. What it prints before `run` goes into `start.log` there.
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
            said, process._runner = await asyncio.open_unix_connection(sock=job, limit=LINE_BYTES_MAX)
            undo.pop_all()
        hearing = asyncio.create_task(process._hear_runner(said))
        process._listening = asyncio.create_task(process._hear_launcher(hearing))
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
        # What the job prints belongs into its own log, so the launcher goes first.
        self._log = log
        self._unsent.append(order)
        self._attend(folder, log_bytes_max=kind.log_bytes_max, memory_bytes_max=kind.memory_bytes_max)

    async def next(self) -> Happening:
        """What happens next, in order; `Exited` is the last, and is given again when asked again."""
        if self._last is None:
            happening = await self._happenings.get()
            self._consumed.set()
            if not isinstance(happening, Exited):
                return happening
            self._last = happening
        return self._last

    def nudge(self) -> None:
        """Let whoever waits for `next` look at something else, too."""
        self._happenings.put_nowait(Nudge())

    def ask_stop(self) -> None:
        """Ask the job to leave a checkpoint and stop. It need not obey."""
        self._tell_runner({"say": "stop"})

    def answer_checkpoint(self, seq: int, *, taken: bool, why: str = "") -> None:
        """Let the job go on after `CheckpointReady`.

        Args:
            why: If it was not taken; goes to the job's log.
        """
        say = "checkpoint-taken" if taken else "checkpoint-refused"
        self._tell_runner({"say": say, "seq": seq, **({} if taken else {"why": why})})

    async def kill(self) -> Exited:
        """Kill the whole tree. Returns once every process of it is dead, and again if it was dead already."""
        self._tell_launcher({"say": "kill"})
        try:
            return await asyncio.wait_for(asyncio.shield(self._exited), _KILL_TIMEOUT_S)
        except TimeoutError:  # a launcher that was frozen, say. Without it, the mark still leads to the tree
            self._launcher.kill()
            return await asyncio.shield(self._exited)

    async def clear(self) -> None:
        """Kill every process of the tree but the runner; returns once they are dead, or all is."""
        cleared: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._cleared.append(cleared)
        self._tell_launcher({"say": "clear"})
        ends: list[asyncio.Future[Any]] = [cleared, self._exited]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)

    @property
    def has_ended(self) -> bool:
        """Is the whole tree dead?"""
        return self._exited.done()

    def _attend(self, folder: Path, *, log_bytes_max: int, memory_bytes_max: int) -> None:
        self._tell_launcher(
            attend(log=self._log, log_bytes_max=log_bytes_max, folder=folder, memory_bytes_max=memory_bytes_max)
        )

    def _tell_launcher(self, order: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # it has gone; its end is on the way
            self._control.send(json.dumps(order).encode())

    def _tell_runner(self, order: dict[str, Any]) -> None:
        if self._unsent:  # in order: a stop must not overtake the job that it is for
            self._unsent.append(order)
        elif not self._runner.is_closing():
            self._runner.write(f"{json.dumps(order)}\n".encode())

    async def _hear_launcher(self, hearing_runner: asyncio.Task[None]) -> None:
        exited = await self._hear_of_exit()
        if exited is None:  # the launcher itself was killed: what it may have left is found by its mark
            await asyncio.to_thread(end_marked, self._mark)
            exited = Exited(tail=tail_of(self._log))
        await asyncio.to_thread(self._launcher.wait)
        self._control.close()
        self._exited.set_result(exited)
        self._consumed.set()
        # What the runner said before its end comes first. The timeout: somebody may have escaped with its socket.
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(hearing_runner, _RUNNER_EOF_TIMEOUT_S)
        self._runner.close()
        self._happenings.put_nowait(exited)

    async def _hear_of_exit(self) -> Exited | None:
        """Listen to the launcher to its end; None if it ended without a word."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                said = await loop.sock_recv(self._control, MESSAGE_BYTES_MAX)
            except OSError:
                return None
            if not said:
                return None
            message = json.loads(said)
            match message.pop("say"):
                case "vitals" if self._has_run and self._happenings.qsize() < _WAITING_HAPPENINGS_MAX:
                    self._happenings.put_nowait(Vitals(**message))
                case "attending":
                    self._has_run = True
                    unsent, self._unsent = self._unsent, []
                    for order in unsent:
                        self._tell_runner(order)
                case "cleared":
                    self._cleared.pop(0).set_result(None)
                case "exit":
                    return Exited(**message, tail=tail_of(self._log))

    async def _hear_runner(self, said: asyncio.StreamReader) -> None:
        try:
            while line := await said.readline():
                happening = _read(json.loads(line))
                while self._happenings.qsize() >= _WAITING_HAPPENINGS_MAX and not self._exited.done():
                    self._consumed.clear()  # let a flood wait in the job's own socket
                    await self._consumed.wait()
                if happening is not None:
                    self._happenings.put_nowait(happening)
        except OSError:
            return
        except Exception:  # whatever job code may have written there: it costs this attempt, and nobody else
            self._happenings.put_nowait(Failed(Outcome.TRANSIENT, "the job broke its line to the worker", "protocol"))


def tail_of(log: Path) -> str:
    """The last 20 lines of a log, empty if there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-TAIL_LINES:])


def _read(message: dict[str, Any]) -> Happening | None:
    """One message, with nothing in it that the ledger or the store could not take.

    Raises:
        Exception: Of any kind: it is not what the runner writes. Job code has found the socket.
    """
    match message["say"]:
        case "progress":
            return Progress(min(max(float(message["fraction"]), 0.0), 1.0), _text(message["message"]))
        case "checkpoint":
            return CheckpointReady(_seq(message["seq"]))
        case "done":
            outputs = {_name(name): _path(path) for name, path in message["outputs"].items()}
            value = json.loads(message["value"])
            check_json(value, bytes_max=VALUE_BYTES_MAX, what="value")
            return Done(outputs, value)
        case "error":
            return Failed(_RAISED[message["outcome"]], _text(message["message"]), _name(message["code"]))
        case "stopped":
            return Stopped()
        case _:
            return None


def _text(text: str) -> str:
    return text.encode(errors="replace").decode()


def _name(name: str) -> str:
    if not is_name(name):
        raise ValueError(f"{name!r} is not a name")
    return name


def _path(path: str) -> Path:
    if "\0" in path:
        raise ValueError("a path with a NUL")
    return Path(path)


def _seq(seq: int) -> int:
    if not 0 < seq < _SEQ_END:
        raise ValueError(f"{seq} is not a number of a checkpoint")
    return int(seq)
