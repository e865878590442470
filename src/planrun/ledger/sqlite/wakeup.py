"""Waking up: whoever commits touches a file, whoever waits watches it. Waiting costs nothing."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import weakref
from pathlib import Path
from typing import Any

_IN_ATTRIB = 0x4
_POLL_S = 0.25


class Wakeup:
    """The wake file. Bound to the event loop that first waits."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._inotify = _open_inotify(path)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._version = 0
        self._seen: weakref.WeakKeyDictionary[asyncio.Task[Any], int] = weakref.WeakKeyDictionary()
        self._next = asyncio.Event()

    def touch(self) -> None:
        """Tell everybody that something was committed. Never fails."""
        with contextlib.suppress(OSError):
            os.utime(self._fd)

    async def changed(self, *, timeout_s: float) -> None:
        """Return once somebody may have committed since the calling task last called, or at the timeout.

        The first call of a task returns at once: it cannot know what it missed.
        """
        self._start()
        task = asyncio.current_task()
        assert task is not None
        if self._seen.get(task) == self._version:
            waiting = self._next
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await waiting.wait()
        self._seen[task] = self._version

    def close(self) -> None:
        if self._inotify >= 0:
            if self._loop is not None and not self._loop.is_closed():
                self._loop.remove_reader(self._inotify)
            os.close(self._inotify)
        os.close(self._fd)

    def _start(self) -> None:
        if self._loop is not None:
            return
        self._loop = asyncio.get_running_loop()
        if self._inotify >= 0:
            self._loop.add_reader(self._inotify, self._drain)
        else:
            self._poller = self._loop.create_task(self._poll())

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self._inotify, 4096):
                pass
        self._announce()

    async def _poll(self) -> None:
        """For systems without inotify."""
        seen = 0
        while True:
            await asyncio.sleep(_POLL_S)
            touched = os.fstat(self._fd).st_mtime_ns
            if touched != seen:
                seen = touched
                self._announce()

    def _announce(self) -> None:
        self._version += 1
        self._next.set()
        self._next = asyncio.Event()


def _open_inotify(path: Path) -> int:
    """A non-blocking descriptor that becomes readable when the file is touched; -1 where there is none."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        fd: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if fd >= 0 and libc.inotify_add_watch(fd, os.fsencode(path), _IN_ATTRIB) < 0:
            os.close(fd)
            return -1
    except (OSError, AttributeError):
        return -1
    return fd
