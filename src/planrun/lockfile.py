"""A lease can say "silent"; a lock can say "dead".

Each worker process holds a flock on a file of its own, and so does the launcher of each of its job
trees, which inherits the descriptor on purpose; job code never has it. So whoever gets the lock has
proof that the worker *and* its job trees are gone, and may end its leases at once.

A missing file, or another file at the same path, proves nothing: then the lease has to run out.
flock and not POSIX record locks, which vanish as soon as any descriptor of the file is closed.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from planrun.core.errors import LedgerUnusable
from planrun.core.messages import WorkerRow
from planrun.core.presence import LOST_AFTER_MS

_SECRET = ".secret"


@dataclass(frozen=True, slots=True)
class WorkerLock:
    """The lock of this worker process, held while it lives.

    Attributes:
        fd: Holds the lock. Not inheritable; passed on to launchers only, by name (`pass_fds`).
        device, inode: Identity of the file, to be registered with the ledger.
    """

    path: Path
    fd: int
    device: int
    inode: int

    @property
    def secret_path(self) -> Path:
        return secret_beside(self.path)

    @classmethod
    def acquire(cls, folder: Path, incarnation: str) -> WorkerLock:
        """Make and lock the file of a fresh incarnation. It holds the pid, for people.

        Raises:
            FileExistsError: An incarnation of that name has existed.
        """
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / incarnation
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with suppress(OSError):  # a full disk must not keep it out; the pid is only for people
            os.write(fd, f"{os.getpid()}\n".encode())
        found = os.fstat(fd)
        return cls(path, fd, found.st_dev, found.st_ino)

    def keep_secret(self, secret: str) -> bool:
        """Write down, for this user alone, by what a ledger elsewhere believes whoever got the lock.

        Returns:
            False: it could not be kept, so that there is no such proof.
        """
        try:
            fd = os.open(self.secret_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "w") as file:
                file.write(secret)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Let go. The file stays, as a proof for what this worker may still hold in the ledger."""
        os.close(self.fd)

    def remove(self) -> None:
        """Let go for good: the ledger names nothing that this worker would still have to be dead for."""
        drop(self.path)
        os.close(self.fd)


def locks_hold(folder: Path, name: str) -> bool:
    """Does a lock of a worker there keep others out? Some filesystems only say so.

    Raises:
        OSError: No file can be made and locked there.
    """
    lock = WorkerLock.acquire(folder, name)
    try:
        other = os.open(lock.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(other)
        return False
    finally:
        lock.remove()


@dataclass(frozen=True, slots=True)
class ProvenDead:
    """The worker and all its job trees are gone. This can never change again."""


@dataclass(frozen=True, slots=True)
class NoProof:
    """Attributes:
    why: For people. It may be alive, or nobody can tell.
    """

    why: str


def prove_dead(worker: WorkerRow) -> ProvenDead | NoProof:
    """Try to get a worker's lock.

    The lock is tried as a shared one: it conflicts with the holder's all the same, but two who probe
    at once do not take each other for a living worker.
    """
    if not worker.lock_file:
        return NoProof(f"worker {worker.name} has registered no lock file")
    try:
        # Never O_CREAT: a file made here would be free, and prove the death of a living worker.
        fd = os.open(worker.lock_file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return NoProof(f"the lock file of worker {worker.name} cannot be opened: {error.strerror}")
    try:
        found = os.fstat(fd)
        if (found.st_dev, found.st_ino) != (worker.lock_device, worker.lock_inode):
            return NoProof(f"{worker.lock_file} is not the file that worker {worker.name} has locked")
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return NoProof(f"worker {worker.name} or a job tree of it lives: {error.strerror}")
    finally:
        os.close(fd)
    return ProvenDead()


def find_released(folder: Path) -> list[Path]:
    """Lock files of workers that are gone, with all their job trees. A file is one once it has its pid in it."""
    found = []
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.suffix == _SECRET:
            continue
        with suppress(OSError):
            status = path.lstat()
            row = WorkerRow(
                incarnation=path.name,
                name=path.name,
                host="",
                slots=0,
                lock_file=str(path),
                lock_device=status.st_dev,
                lock_inode=status.st_ino,
            )
            if status.st_size and isinstance(prove_dead(row), ProvenDead):
                found.append(path)
    return found


def secret_beside(lock: Path) -> Path:
    """Where the secret of a worker's lock file lies, if it has one."""
    return lock.with_suffix(_SECRET)


def drop(lock: Path) -> None:
    """Remove the lock file of a worker that is gone, and its secret."""
    secret_beside(lock).unlink(missing_ok=True)
    lock.unlink(missing_ok=True)


def forget(worker: WorkerRow) -> None:
    """Remove the file of a worker that is proven dead, once the ledger names nothing more that it held."""
    Path(worker.lock_file).unlink(missing_ok=True)


def watch_death(pid: int) -> int | None:
    """A descriptor that becomes readable when a process ends; the caller closes it.

    Returns:
        None where the system has no such thing, or no such process. A hint for a quick look, never a
        proof: a pid means nothing in another namespace, and is reused.
    """
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def seems_dead(worker: WorkerRow, *, wall_ms: int) -> bool:
    """Is it proven dead, or has it been silent for too long?

    Args:
        wall_ms: Now, by the clock of `WorkerRow.seen_at_ms`.
    """
    # A missing lock file proves nothing to a ledger. For people: it was removed once its worker was proven dead.
    unlocked = bool(worker.lock_file) and not Path(worker.lock_file).exists()
    silent = wall_ms - worker.seen_at_ms > LOST_AFTER_MS
    return unlocked or silent or isinstance(prove_dead(worker), ProvenDead)


def hold_ledger(path: Path, *, alone: bool) -> int:
    """Say that this process works on a ledger's file: workers share it, an orchestrator has it alone.

    Args:
        path: The lock file beside it.

    Returns:
        A descriptor. The hold ends when it is closed, or with this process.

    Raises:
        LedgerUnusable: Others are there that do not go together with this; names one.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        status = os.fstat(fd)
        os.close(fd)
        raise LedgerUnusable(_taken(path, _holder(status), alone=alone)) from None
    return fd


def _taken(path: Path, holder: tuple[str, int] | None, *, alone: bool) -> str:
    kind, pid = holder or ("", 0)
    who = f"process {pid}" if pid else "another process"
    ledger = path.with_suffix("")
    if not alone:
        return f"an orchestrator ({who}) owns {ledger}: start the worker with --url http://HOST:PORT of it, or stop it"
    if kind == "WRITE":
        return f"another orchestrator ({who}) owns {ledger}: stop it, or use that one"
    return f"a worker ({who}) has {ledger} open: stop every worker first, then start them with the orchestrator's --url"


def _holder(status: os.stat_result) -> tuple[str, int] | None:
    """Who holds a flock of this file, as the kernel tells: `READ` or `WRITE`, and the process."""
    with suppress(OSError, ValueError):
        for line in Path("/proc/locks").read_text().splitlines():
            fields = line.split()
            if fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == str(status.st_ino):
                return fields[3], int(fields[4])
    return None
