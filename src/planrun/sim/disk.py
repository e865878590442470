"""The disk of a simulated box: one ledger's file, the turn of those who write it, and the bells that they ring."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import apsw

from planrun.core.errors import LedgerBusy
from planrun.ledger.hands import Bell, Hands, Queue
from planrun.sim.actor import Actor
from planrun.sim.loop import SimLoop
from planrun.wiring import upgrade_ledger

SQL = resources.files("planrun.ledger") / "sql" / "sqlite"
LEDGER_UUID = "51700000-0000-4000-8000-000000000000"
COMMIT = "ledger:before-commit"
LOOK_AGAIN_S = 0.05  # who ends waits for its turn
BELL_S = 0.0005  # from a commit to whoever waits for it
FULL = 2  # of SQLite's `synchronous`: a commit is on the disk before it is answered
CHECKPOINT_PAGES = 1000  # as SQLite does it by itself


class Copy(NamedTuple):
    """A ledger's file and its log, as they were right after a commit."""

    file: bytes
    log: bytes


class Disk:
    """Attributes:
    path: Of the ledger's file.
    copies: One after each commit, the newest last; None: they are not kept.
    refusal: Why no commit is taken now; None: they are.
    err: What becomes of the next commit: 0 it fails, and is undone; 1 it fails, and stands; else all is well.
    commit_s: How long a writer waits before its next transaction is written; changes with the weather.
    on_commit: Called after each commit, with what it was about.
    stops_at: Is this actor to be stopped at such a place? Asked before a transaction begins.
    """

    def __init__(self, loop: SimLoop, folder: Path, *, commit_s: Callable[[], float]) -> None:
        self.path = folder / "ledger.db"
        shutil.copyfile(_template(), self.path)
        self.commit_s = commit_s
        self.on_commit: Callable[[Iterable[str] | None], None] = lambda about: None
        self.stops_at: Callable[[Actor, str], bool] = lambda actor, place: False
        self.copies: list[Copy] | None = None
        self.refusal: apsw.Error | None = None
        self.err: Callable[[], int] | None = None
        self._stands = True
        self.bells: list[SimBells] = []
        self.holder: SimHand | None = None
        self.line: list[SimHand] = []
        self._loop = loop

    def hands(self, actor: Actor) -> Hands:
        """What a process on this box opens the ledger with."""
        return Hands(
            hand=lambda writer: SimHand(self, actor, writer),
            turn=lambda path: SimTurn(),
            bells=lambda path, folder: SimBells(self, actor),
        )

    def opened(self, connection: apsw.Connection) -> None:
        """Somebody has opened a file: if it is the ledger's, its commits go by this disk."""
        if connection.filename == str(self.path):
            connection.set_commit_hook(self._before_commit)
            connection.set_wal_hook(self._after_commit)

    def is_hasty(self) -> bool:
        """Does anybody answer before his commit is on the disk?"""
        mine = [each for each in apsw.connections() if each.filename == str(self.path)]
        return any(each.pragma("synchronous") != FULL for each in mine)

    def _before_commit(self) -> bool:
        if self.refusal is not None:
            raise self.refusal
        end = 2 if self.err is None else self.err()
        if end == 0:
            raise apsw.IOError("disk I/O error")
        self._stands = end != 1
        return False

    def _after_commit(self, connection: apsw.Connection, name: str, pages: int) -> int:
        if pages >= CHECKPOINT_PAGES:
            connection.wal_checkpoint()
        if self._stands:
            return apsw.SQLITE_OK
        self._stands = True
        self.on_commit(None)  # nobody is told that it stands, but who looks at the file sees it
        return apsw.SQLITE_IOERR_FSYNC

    def ring(self, about: Iterable[str] | None) -> None:
        """Something was committed: tell whoever listens, and everybody who waits, a moment later."""
        names = None if about is None else frozenset(about)
        if self.copies is not None:
            self.copies.append(self.copy())
        self.on_commit(names)
        for bells in self.bells:
            bells.told(names)

    def copy(self) -> Copy:
        """What has been committed by now."""
        return Copy(self.path.read_bytes(), self._log.read_bytes() if self._log.exists() else b"")

    def put_back(self, copy: Copy, *, is_backup: bool = False) -> None:
        """Another file lies there now. To be said while nobody who lives has it open."""
        for path in (self.path, self._log, self._log.with_name(f"{self.path.name}-shm")):
            path.unlink(missing_ok=True)  # who is dead keeps what it had
        self.path.write_bytes(copy.file)
        self._log.write_bytes(copy.log)
        self.copies = None
        if is_backup:
            connection = apsw.Connection(str(self.path))
            connection.set_commit_hook(None)  # it was made while the disk was well
            connection.set_wal_hook(None)
            connection.execute((SQL / "mark_copy.sql").read_text())
            connection.close()

    @property
    def _log(self) -> Path:
        return self.path.with_name(f"{self.path.name}-wal")

    def pause(self, seconds: float) -> None:
        """See `SimLoop.pause`."""
        self._loop.pause(seconds)

    def run(self, hand: SimHand) -> None:
        """Let one writer have its turn."""
        self.holder = hand
        if self.stops_at(hand.actor, COMMIT):
            self._loop.in_thread(lambda: self._write(hand))
        else:
            self._write(hand)

    def let_go(self, hand: SimHand) -> None:
        """Its turn is over, or it is dead: the system lets go of its locks."""
        if hand in self.line:
            self.line.remove(hand)
        if self.holder is hand:
            self.holder = None
            if self.line:
                following = self.line.pop(0)
                following.actor.soon(following.drain)

    def _write(self, hand: SimHand) -> None:
        try:
            hand.write()
        finally:
            self.let_go(hand)


class SimHand:
    """Drains one writer, as callbacks of its actor. Implements `planrun.ledger.hands.Hand`."""

    def __init__(self, disk: Disk, actor: Actor, writer: Queue) -> None:
        self.actor = actor
        self._disk = disk
        self._writer = writer
        self._is_rung = False
        actor.at_crash.append(lambda: disk.let_go(self))

    def ring(self) -> None:
        if not self._is_rung:
            self._is_rung = True
            self.actor.later(self._disk.commit_s(), self.drain)

    def drain(self) -> None:
        if self._disk.holder is None:
            self._disk.run(self)
        else:
            self._disk.line.append(self)

    def write(self) -> None:
        self._is_rung = False
        pause_s = self._writer.drain()
        if self._writer.is_waiting():
            self._is_rung = True
            self.actor.later(pause_s, self.drain)

    def close(self, timeout_s: float) -> bool:
        for _ in range(round(timeout_s / LOOK_AGAIN_S)):
            if not self._writer.is_waiting() or self.actor.is_dead:
                break
            if self._disk.holder is None:
                self._disk.run(self)
            else:
                self._disk.pause(LOOK_AGAIN_S)
        self._writer.has_ended()
        return not self._writer.is_waiting()


class SimTurn:
    """The hand has the turn before it drains: here nothing waits. Implements `planrun.ledger.hands.Turn`."""

    @contextmanager
    def turn(self, *, wait_s: float | None = None, in_a_hurry: object = None) -> Iterator[bool]:
        yield True

    @contextmanager
    def turn_if_free(self) -> Iterator[bool]:
        yield True

    def pass_on(self) -> None:
        pass

    def busy(self, waited_s: float) -> LedgerBusy:
        return LedgerBusy(f"another process has held the write lock for {waited_s:g} s; nothing was done", holder_pid=0)

    def close(self) -> None:
        pass


class SimBells:
    """What one process hears of the commits of all. Implements `planrun.ledger.hands.Bells`."""

    def __init__(self, disk: Disk, actor: Actor) -> None:
        self._disk = disk
        self._actor = actor
        self._all = Bell(0)
        self._about: dict[str, Bell] = {}
        disk.bells.append(self)
        actor.at_crash.append(self.close)

    def touch(self, about: Iterable[str] | None) -> None:
        self._disk.ring(about)

    def told(self, about: frozenset[str] | None) -> None:
        """From whoever has committed."""
        self._actor.later(BELL_S, self._ring, about)

    async def changed(self, *, timeout_s: float, about: str | None = None) -> None:
        bell = self._all if about is None else self._about.setdefault(about, Bell(0))
        await bell.wait(timeout_s)

    def close(self) -> None:
        if self in self._disk.bells:
            self._disk.bells.remove(self)

    def _ring(self, about: frozenset[str] | None) -> None:
        self._all.ring()
        for name, bell in self._about.items():
            if about is None or name in about:
                bell.ring()


@cache
def _template() -> Path:
    """An empty ledger, made once per process: a history copies it instead of running the migrations."""
    path = scratch() / "template.db"
    upgrade_ledger(f"sqlite:///{path}", backup=None)
    connection = apsw.Connection(str(path))
    connection.execute((SQL / "set_meta.sql").read_text(), {"k": "ledger_uuid", "v": LEDGER_UUID})
    connection.pragma("wal_checkpoint", "truncate")
    connection.close()
    return path


@cache
def scratch() -> Path:
    """Where this process keeps the files of its histories: in memory where the system has such a folder."""
    memory = Path("/dev/shm")
    root = memory if memory.is_dir() else Path(tempfile.gettempdir())
    folder = tempfile.TemporaryDirectory(prefix="planrun-sim-", dir=root)
    _KEPT.append(folder)
    return Path(folder.name)


_KEPT: list[tempfile.TemporaryDirectory[str]] = []  # removed when the process ends
