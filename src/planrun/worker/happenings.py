"""What happens to a job process: what its runner says on its line, what its launcher measures, and its end."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planrun.config import VALUE_BYTES_MAX
from planrun.core.life import Outcome
from planrun.core.limits import Vitals
from planrun.core.spelling import is_name
from planrun.core.values import check_json

LINE_BYTES_MAX = 4 * VALUE_BYTES_MAX + 1024 * 1024  # a value of escapes, and names and paths of outputs
WAITING_MAX = 64  # happenings; what comes then waits in the job's own socket
_RUNNER_EOF_TIMEOUT_S = 1.0
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


class RunnerLine(asyncio.Protocol):
    """The worker's end of the runner's socket: a JSON object per line, both ways."""

    def __init__(self, happenings: asyncio.Queue[Happening]) -> None:
        self._happenings = happenings
        self._transport: asyncio.Transport
        self._rest = b""
        self._is_full = self._is_broken = False
        self._closed = asyncio.get_running_loop().create_future()

    def tell(self, order: dict[str, Any]) -> None:
        if not self._transport.is_closing():
            self._transport.write(f"{json.dumps(order)}\n".encode())

    def make_room(self) -> None:
        """Something was taken: a flood has waited in the job's own socket."""
        if self._is_full and self._happenings.qsize() < WAITING_MAX:
            self._is_full = False
            self._transport.resume_reading()

    async def hear_out(self) -> None:
        """Hear the rest of a runner that is dead. Not for long: somebody may have escaped with its socket."""
        self._transport.resume_reading()
        self._is_full = True  # and so it does not pause again
        await asyncio.wait([self._closed], timeout=_RUNNER_EOF_TIMEOUT_S)
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        try:
            for line in lines if not self._is_broken else ():
                happening = _read(json.loads(line))
                if happening is not None:
                    self._happenings.put_nowait(happening)
            if len(self._rest) > LINE_BYTES_MAX:
                raise ValueError("a line without an end")
        except Exception:  # whatever job code may have written there: it costs this attempt, and nobody else
            self._is_broken, self._rest = True, b""
            self._happenings.put_nowait(Failed(Outcome.TRANSIENT, "the job broke its line to the worker", "protocol"))
        if self._happenings.qsize() >= WAITING_MAX and not self._is_full:
            self._is_full = True
            self._transport.pause_reading()

    def connection_lost(self, _: Exception | None) -> None:
        if not self._closed.done():
            self._closed.set_result(None)


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
