"""Runs one command as the child of a job process, and turns its end into that of the job.

The two pipes are always descriptors 3 and 4 in the child: a shell can only name one digit.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import select
import signal
from collections.abc import Iterator
from typing import Any, NoReturn

from planrun.core.errors import JobError, Permanent, Transient
from planrun.jobs.context import JobContext, Stopped
from planrun.jobs.spoken import OUT, VERDICTS, Spoken

INPUTS = "inputs.json"
PROGRESS_FD, ANSWER_FD = 3, 4
EXIT_CODES = {10: "permanent", 11: "transient", 12: "fatal"}
LINE_BYTES_MAX = 1024 * 1024
LOOK_S = 0.05  # how late a stop may be passed on

_READ_BYTES = 65536
_READS_IN_A_ROW = 64  # then look at its end and at a stop again; a pipe holds less
_OUT_OF_THE_WAY = 10  # the first descriptor that no descriptor of the child can be
_AFTER_SIGTERM = (-signal.SIGTERM, 128 + signal.SIGTERM)  # by itself, or as a shell reports it


def run_child(j: JobContext, arguments: list[str]) -> Any:
    """Run a command to its end.

    Returns:
        What the job returns.

    Raises:
        JobError: What the command said, or what its end means.
        Stopped: It was asked to stop, and has.
    """
    (j.scratch / OUT).mkdir(exist_ok=True)
    told = {
        "inputs": {name: str(path) for name, path in j.inputs.items()},
        "params": j.params,
        "scratch": str(j.scratch),
        "checkpoint": str(j.checkpoint) if j.checkpoint else None,
        "attempt": j.attempt,
        "idempotency_hint": j.idempotency_hint,
    }
    (j.scratch / INPUTS).write_text(json.dumps(told, indent=1), encoding="utf-8")
    spoken = Spoken(j)
    with contextlib.closing(Child(arguments, inputs=str(j.scratch / INPUTS))) as child:
        code = _attend(j, child, spoken)
    if spoken.failure is not None:
        raise spoken.failure
    if code in _AFTER_SIGTERM and child.asked_to_stop:
        raise Stopped
    if code != 0:
        raise _verdict(code)
    return spoken.answer()


def _attend(j: JobContext, child: Child, spoken: Spoken) -> int:
    while True:
        code = child.wait(LOOK_S)  # before the lines, so that the last ones are not missed
        for line in child.lines(ended=code is not None):
            answer = spoken.hear(line)
            if answer is not None:
                child.tell(answer)
            if answer == "stop":
                raise Stopped
        if code is not None:
            return code
        if j.stopping:
            child.ask_stop()


class Child:
    """A process with two pipes.

    Attributes:
        asked_to_stop: SIGTERM was sent to it.
    """

    def __init__(self, arguments: list[str], *, inputs: str) -> None:
        """Start it.

        Raises:
            JobError: It cannot be started.
        """
        self.asked_to_stop = False
        self._code: int | None = None
        self._rest = b""
        self._said, speaking = os.pipe()
        hearing, self._answers = os.pipe()
        os.set_blocking(self._said, False)
        os.set_blocking(self._answers, False)
        theirs = [_out_of_the_way(speaking), _out_of_the_way(hearing)]
        environment = {
            **os.environ,
            "PLANRUN_INPUTS": inputs,
            "PLANRUN_PROGRESS_FD": str(PROGRESS_FD),
            "PLANRUN_ANSWER_FD": str(ANSWER_FD),
        }
        try:
            self._pid = os.posix_spawnp(
                arguments[0],
                arguments,
                environment,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, theirs[0], PROGRESS_FD),
                    (os.POSIX_SPAWN_DUP2, theirs[1], ANSWER_FD),
                ],
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # which Python ignores
            )
        except OSError as error:
            os.close(self._said)
            os.close(self._answers)
            _refuse(error, arguments[0])
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        self._end = os.pidfd_open(self._pid)
        self._poll = select.poll()
        self._poll.register(self._end, select.POLLIN)
        self._poll.register(self._said, select.POLLIN)

    def wait(self, timeout_s: float) -> int | None:
        """Wait until it has said something or ended; its exit code, or minus the signal, once it has ended."""
        ready = dict(self._poll.poll(timeout_s * 1000))
        if ready.get(self._said, 0) & select.POLLHUP and not ready[self._said] & select.POLLIN:
            self._poll.unregister(self._said)  # nobody can say anything any more
        if self._end in ready and self._code is None:
            self._code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        return self._code

    def lines(self, *, ended: bool) -> Iterator[str]:
        """What it has said since; once it has ended, also a last line that is not whole.

        Raises:
            Permanent: It says something without end.
        """
        for _ in range(_READS_IN_A_ROW):
            if not (chunk := self._read()):
                break
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            yield from map(_decoded, lines)
            if len(self._rest) > LINE_BYTES_MAX:
                raise Permanent(f"the command said a line of more than {LINE_BYTES_MAX} bytes", code="bad-line")
        if ended:
            yield _decoded(self._rest)

    def tell(self, answer: str) -> None:
        """Answer a line. It need not listen."""
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(self._answers, f"{answer}\n".encode())

    def ask_stop(self) -> None:
        """Send SIGTERM to it alone, once."""
        if not self.asked_to_stop and self._code is None:
            self.asked_to_stop = True
            os.kill(self._pid, signal.SIGTERM)

    def close(self) -> None:
        """End it, if it still runs. What it started is the launcher's to end."""
        if self._code is None:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        for descriptor in (self._said, self._answers, self._end):
            os.close(descriptor)

    def _read(self) -> bytes:
        try:
            return os.read(self._said, _READ_BYTES)
        except BlockingIOError:
            return b""


def _verdict(code: int) -> JobError:
    if code in EXIT_CODES:
        verdict = EXIT_CODES[code]
        return VERDICTS[verdict](f"the command exited with code {code} ({verdict})", code="exit")
    if code > 0:
        return Transient(f"the command exited with code {code}", code="exit")
    with contextlib.suppress(ValueError):
        return Transient(f"the command was killed by {signal.Signals(-code).name}", code="signal")
    return Transient(f"the command was killed by signal {-code}", code="signal")


def _refuse(error: OSError, program: str) -> NoReturn:
    """Say why a command could not be started. Another machine may have the program, so most of it is Transient."""
    match error.errno:
        case errno.ENOENT:
            why = f"there is no {program} here, or not what runs it; install it, and name it in needs=[…]"
        case errno.EACCES:
            why = f"{program} may not be run; say chmod +x"
        case errno.ENOEXEC:
            why = f"{program} is nothing that this machine can run; a script begins with a line such as #!/bin/sh"
        case errno.E2BIG:
            raise Permanent("the arguments are too long; read them from inputs.json", code="argument") from None
        case _:
            raise error
    raise Transient(why, code="no-program") from None


def _out_of_the_way(descriptor: int) -> int:
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _OUT_OF_THE_WAY)
    os.close(descriptor)
    return moved


def _decoded(line: bytes) -> str:
    return line.decode("utf-8", "surrogateescape")
