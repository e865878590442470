"""The store of a simulated world: slow, away, forgetful; and it remembers every byte that was ever written there."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

from planrun.core.errors import LostLease, StorageError
from planrun.core.names import object_key
from planrun.sim.loop import SimLoop
from planrun.storage.contract import Stored
from planrun.trip import trip


class SimStore:
    """Implements `planrun.storage.contract.Store`. One for all machines, which reach it as `way` says.

    Attributes:
        objects: What lies there now.
        written: Every key that was ever written, with all the digests that lay there, in order.
        away: Why nobody reaches it now; empty: all do.
        refuses: Why it takes nothing now; empty: it does.
        unfinished: What it has got of uploads that go on or were cut off, by the key that each is to have.
        is_unheard: Is what it says of an upload that it has taken lost on its way?
        upload_s: How long an upload by the current actor takes.
        on_write: Called with the key of what has just been written or removed.
        honours_absent: Does `put_if_absent` keep what lies there?
    """

    def __init__(self, loop: SimLoop) -> None:
        self.objects: dict[str, bytes] = {}
        self.written: dict[str, list[str]] = {}
        self.away = ""
        self.upload_s: Callable[[], float] = lambda: 0.0
        self.is_reachable: Callable[[], bool] = lambda: True
        self.on_write: Callable[[str], None] = lambda key: None
        self.refuses = ""
        self.unfinished: dict[str, bytes] = {}
        self.is_unheard: Callable[[], bool] = lambda: False
        self.honours_absent = True
        self.full = False
        self._loop = loop

    def put(self, prefix: str, name: str, source: Path, *, may_go_on: Callable[[], bool]) -> Stored:
        self._reach()
        if not may_go_on():
            raise LostLease("the lease ended before the upload began")
        data = source.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        key = object_key(prefix, digest, name)
        if self.refuses:
            raise StorageError(f"the store refuses: {self.refuses}")
        self.unfinished[key] = data
        try:
            self._upload(may_go_on)
        except (LostLease, StorageError):  # who dies on the way leaves it there
            self.unfinished.pop(key, None)
            raise
        self.unfinished.pop(key, None)
        self._write(key, data)
        if self.is_unheard():
            raise StorageError("the store is away: no answer", is_away=True)
        return Stored(key, digest, len(data))

    def _upload(self, may_go_on: Callable[[], bool]) -> None:
        half_s = self.upload_s() / 2
        if half_s:
            self._loop.pause(half_s)
            self._reach()
        if not may_go_on():
            raise LostLease("the lease ended during the upload")
        trip("upload:before-complete")
        if half_s:
            self._loop.pause(half_s)  # what was asked may be otherwise when the bytes become visible
        self._reach()
        if self.full:
            raise StorageError("the disk of the store is full", disk_full=True)

    def head(self, key: str) -> int | None:
        self._reach()
        data = self.objects.get(key)
        return None if data is None else len(data)

    def get(self, key: str, target: Path, *, sha256: str, before_chunk: Callable[[], None] = lambda: None) -> None:
        self._reach()
        before_chunk()
        data = self.objects.get(key)
        if data is None or hashlib.sha256(data).hexdigest() != sha256:
            raise StorageError(f"{key} is gone, or is not what was stored")
        target.write_bytes(data)

    def local_path(self, key: str) -> Path | None:
        return None

    def put_if_absent(self, key: str, data: bytes) -> bytes:
        self._reach()
        there = self.objects.get(key)
        if there is not None and self.honours_absent:
            return there
        self._write(key, data)
        return data

    def read(self, key: str) -> bytes | None:
        self._reach()
        return self.objects.get(key)

    def url_of(self, key: str, *, ttl_s: float) -> str | None:
        return None

    def copy_public(self, key: str, name: str) -> bool:
        return False

    def delete(self, key: str) -> None:
        self._reach()
        self.objects.pop(key, None)
        self.unfinished.pop(key, None)
        self.on_write(key)

    def keys(self, prefix: str) -> Iterator[str]:
        self._reach()
        return iter(sorted(key for key in {*self.objects, *self.unfinished} if key.startswith(prefix)))

    def lose(self, key: str) -> None:
        """It has acknowledged the object, and it is gone."""
        self.objects.pop(key, None)

    def _write(self, key: str, data: bytes) -> None:
        self.objects[key] = data
        self.written.setdefault(key, []).append(hashlib.sha256(data).hexdigest())
        self.on_write(key)

    def _reach(self) -> None:
        why = self.away or ("" if self.is_reachable() else "no way to it from here")
        if why:
            raise StorageError(f"the store is away: {why}", is_away=True)
