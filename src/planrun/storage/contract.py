"""The port of the store: immutable objects under keys that name their attempt.

Which attempt won is not known here: the settled row says so. Only ledger-side duties may delete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Stored:
    """What was written, from the very bytes that were written."""

    key: str
    sha256: str
    bytes: int


class Store(Protocol):
    """Synchronous: callers that must not wait run it in a thread.

    Raises (every method):
        StorageError: The store could not do it, with its own words; nothing became visible.
    """

    def put(self, prefix: str, name: str, source: Path, *, may_go_on: Callable[[], bool]) -> Stored:
        """Copy a local file to `<prefix><sha256>/<name>`, hashing the bytes as they are written; durable on return.

        Args:
            may_go_on: Asked before every chunk and before the object becomes visible.

        Raises:
            LostLease: `may_go_on` said no. Nothing became visible.
        """
        ...

    def head(self, key: str) -> int | None:
        """Size in bytes, None if there is no such object."""
        ...

    def get(self, key: str, target: Path, *, sha256: str, before_chunk: Callable[[], None] = lambda: None) -> None:
        """Copy an object to a local file and verify its digest; a wrong digest is a StorageError.

        Args:
            before_chunk: Called before every chunk; what it raises ends the copy, and nothing is left.
        """
        ...

    def local_path(self, key: str) -> Path | None:
        """Where a process of this box can read the object, if it can."""
        ...

    def put_if_absent(self, key: str, data: bytes) -> bytes:
        """Create a small object, unless there is one: what lies there afterwards, durably.

        Of any number of callers one wins, and all get the winner's bytes; also whoever asks again after a lost answer.
        """
        ...

    def read(self, key: str) -> bytes | None:
        """The bytes of a small object, None if there is none."""
        ...

    def url_of(self, key: str, *, ttl_s: float) -> str | None:
        """Where anybody may read the object for so many seconds, without credentials; None: no store on the network.

        Asks nobody: there need not be such an object.
        """
        ...

    def copy_public(self, key: str, name: str) -> bool:
        """Let a copy stand under a public name, `<namespace>/<name>`, instead of what stands there.

        Returns:
            False: people look for names in a folder, where who calls has to put it.
        """
        ...

    def delete(self, key: str) -> None: ...

    def keys(self, prefix: str) -> Iterator[str]:
        """All objects below a prefix, unfinished uploads of it included where the store shows them."""
        ...
