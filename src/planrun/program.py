"""Running a program that somebody configured, within bounds: a receiver of answers, a health probe."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress

from planrun.core.errors import PlanrunError


class ProgramFailed(PlanrunError):
    """The program did not exit with 0, or not in time. The text says which."""


async def run_program(
    argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float, environment: Mapping[str, str] | None = None
) -> None:
    """Run a program without a shell until it exits with 0. What it prints to stderr goes to ours.

    At the timeout, or when this call is canceled, it is killed with its process group.

    Args:
        environment: Its whole environment; None: ours.

    Raises:
        ProgramFailed: It could not be started, exited with another code, or took too long.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=PIPE, stdout=DEVNULL, start_new_session=True, env=environment
        )
    except OSError as error:
        raise ProgramFailed(f"{argv[0]} cannot be started: {error.strerror}") from None
    try:
        async with asyncio.timeout(timeout_s):
            code = await _feed(process, stdin)
    except TimeoutError:
        raise ProgramFailed(f"{argv[0]} did not end within {timeout_s:g} s and was killed") from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if code:
        raise ProgramFailed(f"{argv[0]} {_how_it_ended(code)}")


async def _feed(process: Process, data: bytes) -> int:
    """Write its input, as far as it wants to read it, and wait for its end."""
    assert process.stdin is not None
    with suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(data)
        await process.stdin.drain()
    process.stdin.close()
    return await process.wait()


def _how_it_ended(code: int) -> str:
    if code > 0:
        return f"exited with {code}"
    return f"was killed by {signal.Signals(-code).name}"
