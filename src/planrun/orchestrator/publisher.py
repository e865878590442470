"""Public names: the winner's file, copied to where people look for it, while no later job has the name.

    <root>/<namespace>/<name>       a file of its own: whoever edits it never reaches the result
    <root>/.planrun/<nn>            held by whoever writes names of that group
    <root>/.planrun/<nn>.part       the bytes before they have their name

Only this module writes there. Who is to write a name holds its group, asks the ledger whose the name is,
copies, asks again, renames, and asks once more. So of two jobs the later one's file stands there in the
end, whichever finished first; and a holder that is frozen in between keeps only its own group waiting.

A store that can copy by itself does so instead, to `_public/<namespace>/<name>` in its bucket; the rest is the same.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from planrun.core.errors import StorageError
from planrun.core.history import What
from planrun.core.messages import Output, Result, Struct
from planrun.core.routes import Publish
from planrun.folders import fsync_folder, held_alone
from planrun.ledger.contract import Ledger
from planrun.storage.contract import Store
from planrun.trip import trip

AT_ONCE_MAX = 2
_OURS = ".planrun"


class Busy(Exception):
    """Another process writes a name of that group just now, or this one ends. Somebody tries again later."""


class Said(NamedTuple):
    """What became of it, for the job's history, and why."""

    what: What
    detail: str


class _Body(Struct):
    result: Result


class Publisher:
    """Writes the public folder of one ledger. Several processes may: one at a time writes a name."""

    def __init__(self, ledger: Ledger, store: Store, root: Path) -> None:
        self._ledger = ledger
        self._store = store
        self._root = root
        self._few = asyncio.Semaphore(AT_ONCE_MAX)
        self._stopping = threading.Event()

    async def publish(self, body: str, route: Publish) -> Said:
        """Let the file stand at its name, if the name is still this job's. Durable on return.

        Args:
            body: The message that owes it.

        Raises:
            Busy: Not now.
            StorageError: It could not be written, or the object is not there; trying again may help.
        """
        result = msgspec.json.decode(body, type=_Body).result
        output = _chosen(result, route)
        if output is None:
            had = ", ".join(found.name for found in result.outputs) or "no file"
            wanted = f"the output {route.output}" if route.output else "one file"
            return Said(What.UNPUBLISHED, f"{route.name}: the job was to return {wanted}, and returned {had}")
        async with self._few:
            with self._alone(f"{result.namespace}/{route.name}") as staged:
                return await self._write(result, route, output, staged)

    def close(self) -> None:
        """Give up what is being copied: it begins anew somewhere else."""
        self._stopping.set()

    async def _write(self, result: Result, route: Publish, output: Output, staged: Path) -> Said:
        if await self._is_ours(result, route) and await self._place(result, route, output, staged):
            trip("publish:renamed")
            if await self._is_ours(result, route):
                return Said(What.PUBLISHED, route.name)
        return Said(What.SUPERSEDED, f"{route.name}: a later job has that name")

    async def _place(self, result: Result, route: Publish, output: Output, staged: Path) -> bool:
        """False: the name is not ours any more, and what was copied is overwritten by who holds the group next."""
        if await asyncio.to_thread(self._store.copy_public, output.key, f"{result.namespace}/{route.name}"):
            return True
        await asyncio.to_thread(self._copy, output, staged)
        trip("publish:copied")
        if not await self._is_ours(result, route):
            return False
        trip("publish:before-rename")
        await asyncio.to_thread(self._rename, staged, self._root / result.namespace / route.name)
        return True

    async def _is_ours(self, result: Result, route: Publish) -> bool:
        return await self._ledger.holder_of(result.namespace, route.name) == result.job_id

    def _copy(self, output: Output, staged: Path) -> None:
        """A copy, never a link, verified against the digest of the result."""
        staged.unlink(missing_ok=True)
        self._store.get(output.key, staged, sha256=output.sha256, before_chunk=self._go_on)
        with _in_words(staged), staged.open("rb+") as file:
            staged.chmod(0o644)
            os.fsync(file.fileno())

    def _rename(self, staged: Path, target: Path) -> None:
        with _in_words(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            staged.rename(target)
            for folder in target.parents:
                fsync_folder(folder)
                if folder == self._root:
                    break
            fsync_folder(self._root.parent)

    def _go_on(self) -> None:
        if self._stopping.is_set():
            raise Busy("this process ends")

    @contextmanager
    def _alone(self, name: str) -> Iterator[Path]:
        """Hold the group of a name, if nobody does. Yields where its bytes are put together."""
        group = hashlib.sha256(name.encode()).hexdigest()[:2]
        with _in_words(self._root):
            (self._root / _OURS).mkdir(parents=True, exist_ok=True)
            handle = os.open(self._root / _OURS / group, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        with held_alone(handle) as is_ours:
            if not is_ours:
                raise Busy(name)
            yield self._root / _OURS / f"{group}.part"


def _chosen(result: Result, route: Publish) -> Output | None:
    """The output that is meant: the one that is named, or the only one."""
    fitting = [output for output in result.outputs if route.output in ("", output.name)]
    return fitting[0] if len(fitting) == 1 else None


@contextmanager
def _in_words(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}; make room or way for it there") from error
