"""Waking up: whoever commits touches files, whoever waits watches one. Waiting costs nothing.

One file is touched after every commit. Who waits for one job only, as a hundred clients do, must not be woken by each
commit of the others: it watches a file that is touched only when something happened to its job (or to a few others,
as the files are few). Such a file is made by the first who watches it; nobody else needs it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path

from planrun.ledger.hands import Bell

_IN_ATTRIB = 0x4
_EVENT = struct.Struct("iIII")
_POLL_S = 0.25
_BELLS = 4096


class Wakeup:
    """The files of one ledger. Bound to the event loop that first waits."""

    def __init__(self, path: Path, folder: Path) -> None:
        """
        Args:
            path: The file of every commit.
            folder: Where the files of single jobs are.
        """
        self._path = path
        self._folder = folder
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._libc, self._inotify = _open_inotify()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._bells: dict[str, Bell] = {}
        self._watched: dict[int, Bell] = {}

    def touch(self, about: Iterable[str] | None) -> None:
        """Tell everybody that something was committed. Never fails.

        Args:
            about: The jobs and worker incarnations that it was about; None: nobody knows.
        """
        with contextlib.suppress(OSError):
            os.utime(self._fd)
        with contextlib.suppress(OSError):  # mostly: nobody has ever waited here for a single job
            paths = os.scandir(self._folder) if about is None else {self._file_of(name) for name in about}
            for path in paths:
                with contextlib.suppress(FileNotFoundError):
                    os.utime(path)

    async def changed(self, *, timeout_s: float, about: str | None = None) -> None:
        """Return once somebody may have committed since the calling task last called, or at the timeout.

        The first call of a task returns at once: it cannot know what it missed.

        Args:
            about: A job or a worker incarnation: only what is about it; None: anything.
        """
        self._start()
        await self._bell(str(self._path) if about is None else self._file_of(about)).wait(timeout_s)

    def close(self) -> None:
        if self._inotify >= 0:
            if self._loop is not None and not self._loop.is_closed():
                self._loop.remove_reader(self._inotify)
            os.close(self._inotify)
        elif self._loop is not None and not self._loop.is_closed():
            self._poller.cancel()
        os.close(self._fd)

    def _file_of(self, name: str) -> str:
        return f"{self._folder}/{zlib.crc32(name.encode()) % _BELLS:03x}"

    def _bell(self, path: str) -> Bell:
        if path not in self._bells:
            self._bells[path] = self._hang(path)
        return self._bells[path]

    def _hang(self, path: str) -> Bell:
        """Watch one file. What cannot be watched alone is woken by every commit: more often than needed, but woken."""
        is_last = path == str(self._path)
        try:
            Path(path).parent.mkdir(exist_ok=True)
            os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
            bell = Bell(os.stat(path).st_mtime_ns)  # noqa: PTH116
        except OSError:
            return Bell(0) if is_last else self._bell(str(self._path))
        if self._inotify >= 0:
            watch = self._libc.inotify_add_watch(self._inotify, os.fsencode(path), _IN_ATTRIB)
            if watch >= 0:
                self._watched[watch] = bell
            elif not is_last:
                return self._bell(str(self._path))
        return bell

    def _start(self) -> None:
        if self._loop is not None:
            return
        self._loop = asyncio.get_running_loop()
        if self._inotify >= 0:
            self._loop.add_reader(self._inotify, self._drain)
        else:
            self._poller = self._loop.create_task(self._poll())

    def _drain(self) -> None:
        rung: set[Bell] = set()
        with contextlib.suppress(BlockingIOError):
            while events := os.read(self._inotify, 4096):
                rung.update(self._bells_of(events))
        for bell in rung:
            bell.ring()

    def _bells_of(self, events: bytes) -> Iterable[Bell]:
        """Whose events these are. The queue of the system may have overflowed: then everybody's."""
        at = 0
        while at < len(events):
            watch, _, _, length = _EVENT.unpack_from(events, at)
            at += _EVENT.size + length
            yield from self._bells.values() if watch < 0 else [self._watched[watch]]

    async def _poll(self) -> None:
        """For systems without inotify."""
        while True:
            await asyncio.sleep(_POLL_S)
            for path, bell in self._bells.items():
                with contextlib.suppress(FileNotFoundError):
                    touched = os.stat(path).st_mtime_ns  # noqa: PTH116
                    if touched != bell.touched_ns:
                        bell.touched_ns = touched
                        bell.ring()


def _open_inotify() -> tuple[ctypes.CDLL, int]:
    """The system's library, and a non-blocking descriptor that tells of touched files; -1 where there is none."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        return libc, int(libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    except AttributeError:
        return libc, -1
