"""What a job of a fleet printed goes to the store: nobody else sees the disk of this machine."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from pathlib import Path

from planrun.core.errors import StorageError
from planrun.core.names import log_key
from planrun.storage.contract import Store

KEPT_BYTES_MAX = 8 * 1024 * 1024
WAIT_S = 5.0  # a store that is away holds no settle up

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
