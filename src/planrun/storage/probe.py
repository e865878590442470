"""What a store really does, found out by doing it: for a start, for `planrun check`, and for who must know.

A store that calls itself S3-compatible may overwrite where it was asked to create only. Results need no
such promise, since each attempt has its own keys; what is decided once for all, such as the manifest of an
ended job, does.
"""

from __future__ import annotations

import hashlib
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from planrun.core.errors import StorageError
from planrun.storage.contract import Store

RACERS = 8
_FOLDER = "_probe"  # no namespace begins like this
TOUCHED = f"{_FOLDER}/touched"
PARTS_BYTES = 9 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class StoreReport:
    """What was seen.

    Attributes:
        creates_once: Of several that create one object, one wins, and nobody overwrites it.
        lists_at_once: A listing shows what has just been written, and not what has just been deleted.
        keeps_bytes: What was written came back, with its size and its digest.
    """

    creates_once: bool
    lists_at_once: bool
    keeps_bytes: bool

    @property
    def sentence(self) -> str:
        """For people."""
        seen = (
            ("what is written comes back", self.keeps_bytes),
            ("create-only", self.creates_once),
            ("listings at once", self.lists_at_once),
        )
        return ", ".join(f"{'' if is_so else 'NOT '}{what}" for what, is_so in seen)

    @property
    def problems(self) -> tuple[str, ...]:
        """What is missing, and what to do; empty: all is well."""
        found = (
            (self.keeps_bytes, "the store does not give back what was written; use another one"),
            (
                self.creates_once,
                "the store OVERWRITES objects where it is asked to create only (it ignores If-None-Match): "
                "strict manifests and recovery after a restored ledger are not safe on it; use another S3 server",
            ),
            (
                self.lists_at_once,
                "the store lists what was written only later: what lost attempts left is collected late",
            ),
        )
        return tuple(problem for is_fine, problem in found if not is_fine)


def probe(store: Store, probe_id: str) -> StoreReport:
    """Write a few small objects, look at them, and delete them. Takes some twenty requests.

    Args:
        probe_id: Of this probe alone.

    Raises:
        StorageError: The store cannot be used, or is away; says what to do.
    """
    prefix = f"{_FOLDER}/{probe_id}/"
    try:
        return StoreReport(
            creates_once=_creates_once(store, prefix),
            lists_at_once=_lists_at_once(store, prefix),
            keeps_bytes=_keeps_bytes(store, prefix),
        )
    finally:
        for key in store.keys(prefix):
            store.delete(key)


def probe_parts(store: Store) -> None:
    """Upload a file that goes in parts, where the store does that, and read it back. It needs no right to delete.

    Raises:
        StorageError: The store cannot be used, or is away; says what to do.
    """
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "source")
        source.write_bytes(bytes(PARTS_BYTES))
        stored = store.put(f"{_FOLDER}/parts/", "parts", source, may_go_on=lambda: True)
        store.get(stored.key, Path(folder, "back"), sha256=stored.sha256)
    with suppress(StorageError):  # the next probe writes over it
        store.delete(stored.key)


def _creates_once(store: Store, prefix: str) -> bool:
    first, raced = f"{prefix}first", f"{prefix}raced"
    store.put_if_absent(first, b"first")
    if store.put_if_absent(first, b"second") != b"first" or store.read(first) != b"first":
        return False
    with ThreadPoolExecutor(RACERS) as pool:
        got = set(pool.map(lambda racer: store.put_if_absent(raced, b"%d" % racer), range(RACERS)))
    return got == {store.read(raced)}


def _lists_at_once(store: Store, prefix: str) -> bool:
    key = f"{prefix}listed/object"
    store.put_if_absent(key, b"")
    seen = list(store.keys(f"{prefix}listed/"))
    store.delete(key)
    return seen == [key] and not list(store.keys(f"{prefix}listed/"))


def _keeps_bytes(store: Store, prefix: str) -> bool:
    data = bytes(range(256)) * 16
    with tempfile.TemporaryDirectory() as folder:
        source, back = Path(folder, "source"), Path(folder, "back")
        source.write_bytes(data)
        stored = store.put(prefix, "kept", source, may_go_on=lambda: True)
        try:
            store.get(stored.key, back, sha256=hashlib.sha256(data).hexdigest())
        except StorageError as error:
            if error.is_away:
                raise
            return False
        return store.head(stored.key) == len(data)
