"""What a job of a fleet prints goes to the store: nobody else sees the disk of this machine.

In pieces while it runs, more and more seldom, so that hours cost some hundred small objects; whole when it has ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from planrun.clock import Clock
from planrun.core.errors import StorageError
from planrun.core.names import live_log_prefix, log_key
from planrun.storage.contract import Store

KEPT_BYTES_MAX = 8 * 1024 * 1024
WAIT_S = 5.0  # a store that is away holds no settle up
SHOWN_AFTER_S = 1.0
SHOWN_EVERY_S_MAX = 30.0
SLOWER_BY = 1.5

log = logging.getLogger(__name__)


async def keep_log(store: Store, prefix: str, path: Path) -> None:
    """Move the log of an attempt whose process has ended. Where that cannot be, it stays here, and that is said.

    Args:
        prefix: Where the attempt alone may store.
    """
    try:
        async with asyncio.timeout(WAIT_S):
            await asyncio.to_thread(_move, store, prefix, path)
    except (StorageError, OSError) as error:  # a TimeoutError is one of the latter
        log.warning("what the job printed stays in %s: %s", path, error or "the store gives no answer")


def _move(store: Store, prefix: str, path: Path) -> None:
    try:
        with path.open("rb") as file:
            left_out = max(0, file.seek(0, 2) - KEPT_BYTES_MAX)
            file.seek(left_out)
            text = file.read()
    except (FileNotFoundError, NotADirectoryError):  # it has printed nothing
        return
    store.put_if_absent(log_key(prefix), (f"… {left_out} bytes left out …\n".encode() if left_out else b"") + text)
    path.unlink(missing_ok=True)
    with suppress(OSError):  # another attempt has one there
        path.parent.rmdir()


@asynccontextmanager
async def shown_log(store: Store, prefix: str, path: Path, clock: Clock) -> AsyncIterator[None]:
    """Meanwhile, others see how the log of an attempt grows. A store that is away only delays it."""
    showing = asyncio.create_task(_show(LiveLog(store, prefix, path), clock))
    try:
        yield
    finally:
        showing.cancel()
        await asyncio.wait({showing})


async def _show(live: LiveLog, clock: Clock) -> None:
    wait_s = SHOWN_AFTER_S
    while True:
        await clock.sleep(wait_s)
        wait_s = min(SHOWN_EVERY_S_MAX, wait_s * SLOWER_BY)
        with suppress(StorageError, OSError):  # what stays away is said once, at the end
            await asyncio.to_thread(live.grow)


class LiveLog:
    """The pieces of one log. Beyond what is kept of a log, nothing more is shown before its end."""

    def __init__(self, store: Store, prefix: str, path: Path) -> None:
        self._store = store
        self._prefix = live_log_prefix(prefix)
        self._path = path
        self._read = 0  # of the file
        self._shown = 0

    def grow(self) -> None:
        """Store what was added since the last call. Blocks."""
        try:
            with self._path.open("rb") as file:
                self._read = min(self._read, file.seek(0, 2))  # less: it was cut to its limit
                file.seek(self._read)
                data = file.read(KEPT_BYTES_MAX - self._shown)
        except (FileNotFoundError, NotADirectoryError):
            return
        if data:
            there = self._store.put_if_absent(f"{self._prefix}{self._shown:09d}", data)  # less, if an answer got lost
            self._read += len(there)
            self._shown += len(there)
