"""How surely a job's process tree dies: three levels, found out by trying, and starting a tree at one.

What is probed is what is used later: the probe starts a real tree with a daemon in it and sees it dead.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from planrun.core.errors import Invalid
from planrun.worker.tree import marked

MESSAGE_BYTES_MAX = 65536
_PROBE_TIMEOUT_S = 10
_PACKAGES = Path(__file__).parents[2]
_LAUNCH = "import sys; sys.path.append(sys.argv[1]); from planrun.worker.launcher import main; main()"


class Level(StrEnum):
    """How a job's processes are held together. Surest first."""

    FULL = "full"
    SUBREAPER = "subreaper"
    GROUP = "group"

    @property
    def sentence(self) -> str:
        """What the level guarantees, for people."""
        return _SENTENCES[self]


_SENTENCES = {
    Level.FULL: (
        "full (PID namespace): the kernel kills every process of a job with its launcher, whatever kills the launcher"
    ),
    Level.SUBREAPER: (
        "subreaper: every process of a job is killed, daemons too, when the worker or the job ends; "
        "if the launcher itself is killed, the worker finds what is left by its environment"
    ),
    Level.GROUP: (
        "group: processes of a job are found by session, parent and environment and then killed; "
        "a daemon that leaves its session and clears its environment within a second may escape"
    ),
}


def choose(isolation: str) -> Level:
    """The level to use: a forced one if it works here, else the surest that does.

    Args:
        isolation: `auto` or the name of a level.

    Raises:
        Invalid: No such level, or it does not work here.
    """
    if isolation == "auto":
        return probe()
    try:
        level = Level(isolation)
    except ValueError:
        raise Invalid(f"no isolation level {isolation!r}; use auto, full, subreaper or group") from None
    if not _works(level):
        raise Invalid(f"isolation level {level} does not work here; use auto, which finds one that does")
    return level


def probe() -> Level:
    """The surest level that works for this user on this machine. Takes some tens of milliseconds."""
    return next((level for level in (Level.FULL, Level.SUBREAPER) if _works(level)), Level.GROUP)


def start_tree(
    level: Level,
    command: Sequence[str],
    *,
    control: socket.socket,
    job: socket.socket | None,
    lock_fd: int | None,
    mark: str,
    environment: Mapping[str, str],
    errors: int,
) -> subprocess.Popen[bytes]:
    """Start a launcher, which starts the command once it was told to `attend` over `control`.

    Args:
        control: The launcher's end, a socket that keeps message boundaries.
        job: The only further descriptor that the command gets, under the same number.
        lock_fd: Stays open in the launcher until the tree is dead; the command does not get it.
        mark: See `tree.mark_of`: by it the tree can be found without its launcher.
        environment: All that the command sees.
        errors: Descriptor for the launcher's own troubles.
    """
    job_fd = job.fileno() if job else -1
    lock = -1 if lock_fd is None else lock_fd
    given = (control.fileno(), job_fd, lock)
    arguments = [str(_PACKAGES), level, mark, *map(str, given), *command]
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-E", "-c", _LAUNCH, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        env=dict(environment),
        pass_fds=[descriptor for descriptor in given if descriptor >= 0],
        start_new_session=True,
    )


def attend(*, log: Path, log_bytes_max: int, folder: Path, memory_bytes_max: int) -> dict[str, Any]:
    """The message that tells a launcher where to log and what to measure."""
    return {
        "say": "attend",
        "log": str(log),
        "log_bytes_max": log_bytes_max,
        "folder": str(folder),
        "memory_bytes_max": memory_bytes_max,
    }


def open_control() -> tuple[socket.socket, socket.socket]:
    """Both ends of a launcher's control socket."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def _works(level: Level) -> bool:
    """Does a daemon of a tree at this level die with the tree?"""
    ours, theirs = open_control()
    ours.settimeout(_PROBE_TIMEOUT_S)
    mark = f"probe@{os.getpid()}.{secrets.token_hex(8)}"
    daemon = "import os, time; os.fork() or os.setsid() or os.fork() or time.sleep(600)"
    command = [sys.executable, "-I", "-S", "-c", daemon]
    with ours:
        with theirs:
            launcher = start_tree(
                level,
                command,
                control=theirs,
                job=None,
                lock_fd=None,
                mark=mark,
                environment={},
                errors=subprocess.DEVNULL,
            )
        try:
            null = Path(os.devnull)
            ours.send(json.dumps(attend(log=null, log_bytes_max=1, folder=null, memory_bytes_max=0)).encode())
            while said := ours.recv(MESSAGE_BYTES_MAX):
                message = json.loads(said)
                if message["say"] == "exit":
                    return message["code"] == 0 and not marked(mark)
            return False
        except OSError:
            return False
        finally:
            ours.close()
            launcher.wait()
